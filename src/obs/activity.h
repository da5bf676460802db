// What went on in a model since somebody looked last: for a page that shows the last minutes.
//
// Beside the metrics, since Prometheus' histograms only grow, and their buckets are too coarse for
// a plot of a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace paceline::obs {

/// Of the times of one interval.
struct TimeSpread {
  Duration median{};
  Duration high{};  ///< that 95 of 100 do not pass
};

/// None of none. Orders `times`.
std::optional<TimeSpread> spread_of(std::vector<Duration>& times);

/// Thread-safe, and bounded: of an interval's times the first kMostTimes count.
class Activity {
 public:
  static constexpr std::size_t kMostTimes = 4096;

  struct Interval {
    std::uint64_t prompt_tokens = 0;
    std::uint64_t generation_tokens = 0;
    std::optional<TimeSpread> first_token;
    std::optional<TimeSpread> next_token;
  };

  void add_prompt_tokens(std::uint64_t count);
  void add_generation_tokens(std::uint64_t count);
  void observe_first_token(Duration since_arrival);
  /// So many tokens, each so long after the one before.
  void observe_next_tokens(Duration since_last, std::size_t count);

  /// What was added since the last call.
  Interval take();

 private:
  std::mutex mutex_;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t generation_tokens_ = 0;
  std::vector<Duration> first_tokens_;
  std::vector<Duration> next_tokens_;
};

}  // namespace paceline::obs
