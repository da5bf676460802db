#include "system/random_ids.h"

#include <random>

namespace paceline::system {

std::uint64_t random_seed() {
  // The operating system's, so one per thread saves nothing but opening it each time.
  thread_local std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

std::string random_hex(std::size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (i % 16 == 0) bits = random_seed();
    text += kDigits[bits & 15U];
    bits >>= 4U;
  }
  return text;
}

std::string random_id(std::string_view prefix) { return std::string(prefix) + random_hex(24); }

}  // namespace paceline::system
