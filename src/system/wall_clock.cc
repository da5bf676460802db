#include "system/wall_clock.h"

#include <chrono>

namespace paceline::system {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace paceline::system
