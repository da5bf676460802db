// The time of day, for dates that others read. Durations come from base/clock.h.
#pragma once

#include <cstdint>

namespace paceline::system {

/// Seconds since 1970, UTC.
std::int64_t unix_seconds();
std::int64_t unix_nanoseconds();

}  // namespace paceline::system
