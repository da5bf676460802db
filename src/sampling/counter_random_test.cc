#include "sampling/counter_random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace paceline::sampling {
namespace {

using Counter = std::array<std::uint32_t, 4>;

// The known answers that the authors publish for philox4x32-10: zeros, ones, digits of pi.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PositionNoiseTest, OrderOfAskingDoesNotMatter) {
  PositionNoise forward(9, 1, 77);
  std::vector<std::uint64_t> noise;
  for (std::uint32_t token = 0; token < 100; ++token) noise.push_back(forward.bits(token));
  PositionNoise backward(9, 1, 77);
  for (std::uint32_t token = 100; token-- > 0;) EXPECT_EQ(backward.bits(token), noise[token]);
  EXPECT_EQ(std::set<std::uint64_t>(noise.begin(), noise.end()).size(), 100U);
}

TEST(PositionNoiseTest, EveryPartOfTheKeyCounts) {
  const std::uint64_t base = PositionNoise(1, 0, 5).bits(3);
  EXPECT_NE(PositionNoise(2, 0, 5).bits(3), base);
  EXPECT_NE(PositionNoise(1 + (1ULL << 32), 0, 5).bits(3), base);
  EXPECT_NE(PositionNoise(1, 1, 5).bits(3), base);
  EXPECT_NE(PositionNoise(1, 0, 6).bits(3), base);
  EXPECT_NE(PositionNoise(1, 0, 5 + (1ULL << 32)).bits(3), base);
  EXPECT_NE(PositionNoise(1, 0, 5).bits(2), base);
  EXPECT_NE(PositionNoise(1, 0, 5).bits(5), base);
  EXPECT_EQ(PositionNoise(1, 0, 5).bits(3), base);
}

TEST(GumbelTest, ItIsStandardGumbel) {
  PositionNoise noise(42, 0, 0);
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  for (std::uint32_t token = 0; token < kDraws; ++token) {
    const double g = gumbel(noise.bits(token));
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kDraws;
  // Euler's constant and pi^2 / 6; four standard errors of 200000 draws.
  EXPECT_NEAR(mean, 0.5772156649, 4 * 1.2825 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.6449340668, 0.035);
}

TEST(GumbelTest, TheBoundHoldsAndIsTight) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t bits = random() >> (random() % 64);
    const double g = gumbel(bits);
    ASSERT_TRUE(std::isfinite(g)) << bits;
    ASSERT_GE(gumbel_bound(bits), g) << bits;
    if (g > 0) {
      ASSERT_LE(gumbel_bound(bits), g + 1.1) << bits;
    }
  }
  for (const std::uint64_t bits : {0ULL, 1ULL, 0xfffULL, 0x1000ULL, ~0ULL, 1ULL << 63}) {
    EXPECT_TRUE(std::isfinite(gumbel(bits)));
    EXPECT_GE(gumbel_bound(bits), gumbel(bits));
    EXPECT_LE(gumbel(bits), 36.8);
  }
}

}  // namespace
}  // namespace paceline::sampling
