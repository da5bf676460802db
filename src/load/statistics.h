// What a load was answered with: latencies, throughput, and how much of it was good enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace paceline::load {

enum class Outcome : std::uint8_t { kDone, kCancelled, kRefused };

/// One request, in times since the load began.
struct RequestRecord {
  Outcome outcome = Outcome::kDone;
  Duration arrival = {};
  Duration first_token = {};  ///< where there are tokens
  Duration last_token = {};   ///< the same
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<Duration> token_times = {};  ///< of each; may be left out

  double ttft_ms() const;
  /// Per token after the first; 0 where there are none.
  double tpot_ms() const;
};

/// Of a sample of numbers; all 0 where it is empty.
struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double most = 0;
};
Distribution describe(std::vector<double> values);
/// Between the two nearest of `sorted`, which rises and is not empty; 0 <= share <= 1.
double quantile(std::span<const double> sorted, double share);

/// What a request must keep to count as good; 0: no bound.
struct Targets {
  double ttft_ms = 0;
  double tpot_ms = 0;
};

struct Summary {
  std::size_t done = 0;
  std::size_t cancelled = 0;
  std::size_t refused = 0;
  std::size_t good = 0;  ///< done within the targets
  double seconds = 0;    ///< from the begin to the last token
  std::uint64_t prompt_tokens = 0;
  std::uint64_t reused_tokens = 0;
  std::uint64_t output_tokens = 0;  ///< those of cancelled requests included
  Distribution ttft_ms;             ///< of requests that are done
  Distribution tpot_ms;             ///< the same, with two tokens at least

  double requests_per_second() const;
  double good_per_second() const;  ///< goodput
  double output_tokens_per_second() const;
  double tokens_per_second() const;  ///< prompts and answers
};
Summary summarize(std::span<const RequestRecord> records, const Targets& targets);

/// Tokens per second while all of `records` decode: between the last one's first token and the
/// first one's last token, summed over each request's own rate therein (by token_times), so that
/// it makes no difference where in a step the time begins or ends. 0 where there is no such time.
double steady_tokens_per_second(std::span<const RequestRecord> records);

}  // namespace paceline::load
