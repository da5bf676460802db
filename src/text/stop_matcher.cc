#include "text/stop_matcher.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::text {

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stop_strings) {
  if (stop_strings.size() > kMaxStrings) {
    return fail(ErrorCode::kInvalidArgument, "{} stop strings, at most {} are taken",
                stop_strings.size(), kMaxStrings);
  }
  for (std::size_t i = 0; i < stop_strings.size(); ++i) {
    if (stop_strings[i].empty() || stop_strings[i].size() > kMaxBytes) {
      return fail(ErrorCode::kInvalidArgument, "stop string {} has {} bytes, expected 1 to {}", i,
                  stop_strings[i].size(), kMaxBytes);
    }
  }
  return StopMatcher(std::move(stop_strings));
}

StopMatcher::Step StopMatcher::push(std::string_view text) {
  if (stopped_) return {.text = {}, .stopped = true};
  pending_.append(text);
  std::size_t first_end = std::numeric_limits<std::size_t>::max();
  std::size_t first_begin = first_end;
  for (const std::string& stop : stop_strings_) {
    const std::size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (std::pair(end, begin) < std::pair(first_end, first_begin)) {
      first_end = end;
      first_begin = begin;
    }
  }
  Step step;
  if (first_end <= pending_.size()) {
    stopped_ = true;
    step = {.text = pending_.substr(0, first_begin), .stopped = true};
    pending_.clear();
    return step;
  }
  const std::size_t shown = pending_.size() - held_bytes();
  step.text = pending_.substr(0, shown);
  pending_.erase(0, shown);
  return step;
}

std::string StopMatcher::finish() {
  stopped_ = false;
  return std::exchange(pending_, {});
}

/// The longest end of the pending text that a stop string starts with.
std::size_t StopMatcher::held_bytes() const {
  std::size_t held = 0;
  const std::string_view pending = pending_;
  for (const std::string_view stop : stop_strings_) {
    for (std::size_t size = std::min(stop.size() - 1, pending.size()); size > held; --size) {
      if (stop.starts_with(pending.substr(pending.size() - size))) {
        held = size;
        break;
      }
    }
  }
  return held;
}

}  // namespace paceline::text
