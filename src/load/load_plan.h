// A load to put on a chain: which requests come when, how long, and which are cancelled.
//
// Seeded: the same specification gives the same requests, whatever answers them and how fast. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace paceline::load {

/// Numbers drawn evenly from [least, most].
struct Range {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  friend bool operator==(const Range&, const Range&) = default;
};
/// "128", or "64:256". kInvalidArgument: anything else, 0, or a range that falls.
Result<Range> parse_range(std::string_view text);

struct LoadSpec {
  std::uint64_t requests = 32;  ///< 0: without end
  /// Requests per second, independent of each other (gaps are exponential). 0: they come as others
  /// end.
  double rate = 0;
  Range prompt_tokens{128, 128};
  Range output_tokens{64, 64};
  std::uint32_t shared_prefix_tokens = 0;  ///< of each prompt, the same for all
  std::uint32_t vocabulary = 0;            ///< synthetic prompts have tokens below it
  double cancel_rate = 0;                  ///< the share of requests that are cancelled
  std::uint64_t seed = 0;
};
/// kInvalidArgument naming what is wrong.
Status check(const LoadSpec& spec);

struct PlannedRequest {
  std::uint64_t number = 0;  ///< from 0
  Duration arrival = {};     ///< since the begin; 0 where requests come as others end
  std::vector<std::int64_t> prompt;
  std::uint32_t output_tokens = 0;
  std::uint64_t seed = 0;
  /// Cancelled after so many tokens of its answer; 0: while it waits for the first.
  std::optional<std::uint32_t> cancel_after;
};

/// Requests one after the other. Thread-compatible.
class LoadPlan {
 public:
  /// `prompts`: taken in turn; synthetic ones where there are none. The specification is checked.
  LoadPlan(LoadSpec spec, std::vector<std::vector<std::int64_t>> prompts);

  /// None at the end.
  std::optional<PlannedRequest> next();

 private:
  std::uint64_t draw();
  double draw_unit();  ///< in [0, 1)
  std::uint32_t draw_from(Range range);
  std::vector<std::int64_t> synthetic_prompt();
  std::int64_t draw_token();

  const LoadSpec spec_;
  const std::vector<std::vector<std::int64_t>> prompts_;
  std::uint64_t state_;
  std::uint64_t count_ = 0;
  double arrival_s_ = 0;
  std::vector<std::int64_t> prefix_;
};

}  // namespace paceline::load
