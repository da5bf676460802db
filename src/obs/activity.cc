#include "obs/activity.h"

#include <algorithm>
#include <utility>

namespace paceline::obs {
namespace {

/// The smallest that so many of 100 do not pass.
Duration at_percent(const std::vector<Duration>& ordered, std::size_t percent) {
  const std::size_t rank = (ordered.size() * percent + 99) / 100;
  return ordered[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

std::optional<TimeSpread> spread_of(std::vector<Duration>& times) {
  if (times.empty()) return std::nullopt;
  std::sort(times.begin(), times.end());
  return TimeSpread{at_percent(times, 50), at_percent(times, 95)};
}

void Activity::add_prompt_tokens(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += count;
}

void Activity::add_generation_tokens(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  generation_tokens_ += count;
}

void Activity::observe_first_token(Duration since_arrival) {
  const std::lock_guard lock(mutex_);
  if (first_tokens_.size() < kMostTimes) first_tokens_.push_back(since_arrival);
}

void Activity::observe_next_tokens(Duration since_last, std::size_t count) {
  const std::lock_guard lock(mutex_);
  const std::size_t room = kMostTimes - next_tokens_.size();
  next_tokens_.insert(next_tokens_.end(), std::min(count, room), since_last);
}

Activity::Interval Activity::take() {
  std::vector<Duration> first;
  std::vector<Duration> next;
  Interval interval;
  {
    const std::lock_guard lock(mutex_);
    interval.prompt_tokens = std::exchange(prompt_tokens_, 0);
    interval.generation_tokens = std::exchange(generation_tokens_, 0);
    first.swap(first_tokens_);
    next.swap(next_tokens_);
  }
  interval.first_token = spread_of(first);
  interval.next_token = spread_of(next);
  return interval;
}

}  // namespace paceline::obs
