// Stop strings in streamed text: nothing of a stop string is ever shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::text {

/// Cuts a stream of text before the stop string that is complete first; of those that end at the
/// same place, before the longest. The outcome does not depend on how the stream was divided.
/// Text that may be the start of a stop string is held back. Pure; thread-compatible.
class StopMatcher {
 public:
  static constexpr std::size_t kMaxStrings = 64;
  static constexpr std::size_t kMaxBytes = 1024;  ///< of one string

  struct Step {
    std::string text;      ///< to show
    bool stopped = false;  ///< a stop string was found: no more text follows
  };

  /// kInvalidArgument for an empty string, one too long, or too many. None at all is fine.
  static Result<StopMatcher> create(std::vector<std::string> stop_strings);

  /// Takes text of whole characters, as StreamDecoder gives it. After a stop: nothing more.
  Step push(std::string_view text);

  /// The stream ended: what was held back. Then a new stream may start.
  std::string finish();

 private:
  explicit StopMatcher(std::vector<std::string> stop_strings)
      : stop_strings_(std::move(stop_strings)) {}
  std::size_t held_bytes() const;

  std::vector<std::string> stop_strings_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace paceline::text
