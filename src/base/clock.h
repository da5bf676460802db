// Time comes in through an interface, so that pure code and tests never wait for a real clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace paceline {

using Duration = std::chrono::steady_clock::duration;
using TimePoint = std::chrono::steady_clock::time_point;

inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline double to_milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}
inline double to_microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}
inline std::uint64_t to_whole_microseconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// The machine's monotonic clock. Thread-safe.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// A point in time that every blocking call takes; each hop gets what is left of it.
class Deadline {
 public:
  static Deadline after(Duration duration, TimePoint now = std::chrono::steady_clock::now()) {
    return Deadline(now + duration);
  }
  explicit Deadline(TimePoint at) : at_(at) {}

  TimePoint at() const { return at_; }
  bool has_passed(TimePoint now = std::chrono::steady_clock::now()) const { return now >= at_; }
  Duration left(TimePoint now = std::chrono::steady_clock::now()) const {
    return now >= at_ ? Duration::zero() : at_ - now;
  }

 private:
  TimePoint at_;
};

}  // namespace paceline
