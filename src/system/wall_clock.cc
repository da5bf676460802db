#include "system/wall_clock.h"

#include <chrono>

namespace paceline::system {

namespace {

template <typename Unit>
std::int64_t since_1970() {
  return std::chrono::duration_cast<Unit>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int64_t unix_seconds() { return since_1970<std::chrono::seconds>(); }

std::int64_t unix_nanoseconds() { return since_1970<std::chrono::nanoseconds>(); }

}  // namespace paceline::system
