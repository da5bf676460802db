#include "sampling/counter_random.h"

#include <bit>

#include "sampling/exact_math.h"

namespace paceline::sampling {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53U;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57U;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

PositionNoise::PositionNoise(std::uint64_t seed, std::uint32_t choice, std::uint64_t position)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      counter_{0, choice, static_cast<std::uint32_t>(position),
               static_cast<std::uint32_t>(position >> 32)},
      block_(philox(counter_, key_)) {}

std::uint64_t PositionNoise::bits(std::uint32_t token) {
  if (counter_[0] != token / 2) {
    counter_[0] = token / 2;
    block_ = philox(counter_, key_);
  }
  const std::size_t half = std::size_t{token % 2} * 2;
  return std::uint64_t{block_[half]} | std::uint64_t{block_[half + 1]} << 32;
}

double gumbel(std::uint64_t bits) {
  const double v = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  return -exact_log(exact_minus_log1m(v));
}

double gumbel_bound(std::uint64_t bits) {
  // -log(1 - v) > v >= 2^-(zeros + 1), so the number is less than (zeros + 1) ln 2; v is never
  // below 2^-53. The factor is ln 2 and 5e-14 more, for rounding.
  const int zeros = std::countl_zero(bits | 0x800U);
  return (zeros + 1) * 0.69314718056;
}

}  // namespace paceline::sampling
