#include "sampling/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "sampling/counter_random.h"

namespace paceline::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(-1, 6);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(RowKernelsTest, ThePlainOneIsFirstAndTheBestIsOfThem) {
  EXPECT_EQ(all_row_kernels().front().name, "Plain");
  EXPECT_EQ(row_kernels().name, all_row_kernels().back().name);
}

TEST(RowKernelsTest, ScanFindsTheHighestOfEachBlock) {
  for (const RowKernels& kernels : all_row_kernels()) {
    for (const std::size_t size : {1U, 63U, 64U, 65U, 1000U}) {
      const auto logits = random_logits(size, static_cast<unsigned>(size));
      std::vector<float> block_max((size + kBlock - 1) / kBlock);
      const RowScan scan = kernels.scan(logits, block_max.data());
      EXPECT_TRUE(scan.is_sound);
      EXPECT_EQ(scan.max, *std::max_element(logits.begin(), logits.end()));
      for (std::size_t block = 0; block < block_max.size(); ++block) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
        const auto end =
            logits.begin() + static_cast<std::ptrdiff_t>(std::min((block + 1) * kBlock, size));
        EXPECT_EQ(block_max[block], *std::max_element(begin, end));
      }
    }
  }
}

TEST(RowKernelsTest, RangeIsFromTheLowestToTheHighest) {
  for (const RowKernels& kernels : all_row_kernels()) {
    for (const std::size_t size : {1U, 15U, 64U, 777U}) {
      const auto logits = random_logits(size, static_cast<unsigned>(size));
      EXPECT_EQ(kernels.range(logits).low, *std::min_element(logits.begin(), logits.end()));
      EXPECT_EQ(kernels.range(logits).high, *std::max_element(logits.begin(), logits.end()));
    }
  }
}

TEST(RowKernelsTest, ScanFindsWhatIsNotFinite) {
  std::vector<float> block_max(2);
  for (const RowKernels& kernels : all_row_kernels()) {
    for (const float bad : {kNan, -kNan, kInfinity}) {
      for (const std::size_t place : {0U, 5U, 64U, 99U}) {
        auto logits = random_logits(100, 1);
        EXPECT_TRUE(kernels.scan(logits, block_max.data()).is_sound);
        logits[place] = bad;
        EXPECT_FALSE(kernels.scan(logits, block_max.data()).is_sound) << bad << place;
      }
    }
    std::vector<float> masked(100, -kInfinity);
    EXPECT_FALSE(kernels.scan(masked, block_max.data()).is_sound);
    EXPECT_FALSE(kernels.scan({}, block_max.data()).is_sound);
    masked[70] = -3;
    EXPECT_TRUE(kernels.scan(masked, block_max.data()).is_sound);
  }
}

TEST(RowKernelsTest, WeightsAreExponentialsAndTheSameInAll) {
  auto logits = random_logits(3001, 4);
  logits[17] = -kInfinity;
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<std::uint64_t> plain(logits.size());
  std::vector<std::uint64_t> weights(logits.size());
  for (const double temperature : {0.3, 1.0, 2.5, 1e-300, 1e300}) {
    all_row_kernels()[0].weights(logits, {max, temperature}, plain.data());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double exact = std::exp((logits[i] - max) / temperature) * std::ldexp(1, kWeightBits);
      ASSERT_NEAR(static_cast<double>(plain[i]), exact, 0.6) << logits[i] << " " << temperature;
    }
    for (const RowKernels& kernels : all_row_kernels()) {
      kernels.weights(logits, {max, temperature}, weights.data());
      EXPECT_EQ(weights, plain) << kernels.name;
      EXPECT_EQ(kernels.total_weight(logits, {max, temperature}),
                std::accumulate(plain.begin(), plain.end(), std::uint64_t{0}));
    }
  }
}

TEST(RowKernelsTest, BucketsFallWithTheLogit) {
  const auto logits = random_logits(500, 9);
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  const Buckets division = {*high, 100 / (double{*high} - double{*low}) * (1 - 1e-12)};
  std::vector<std::int32_t> plain(logits.size());
  all_row_kernels()[0].buckets(logits, division, plain.data());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(plain[i], static_cast<std::int32_t>((*high - double{logits[i]}) * division.per_unit));
    EXPECT_GE(plain[i], 0);
    EXPECT_LT(plain[i], 100);
  }
  for (const RowKernels& kernels : all_row_kernels()) {
    std::vector<std::int32_t> buckets(logits.size());
    kernels.buckets(logits, division, buckets.data());
    EXPECT_EQ(buckets, plain) << kernels.name;
  }
}

TEST(RowKernelsTest, NoiseIsThatOfThePosition) {
  constexpr std::uint64_t kSeed = 0x123456789abcdefULL;
  constexpr std::uint64_t kPosition = 7 + (5ULL << 32);
  PositionNoise reference(kSeed, 3, kPosition);
  const NoiseKey key = {{0x89abcdefU, 0x1234567U}, {3, 7, 5}};
  std::mt19937 random(2);
  for (const RowKernels& kernels : all_row_kernels()) {
    for (std::size_t count : {1U, 2U, 3U, 31U, 64U}) {
      std::vector<std::uint32_t> tokens(count);
      for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(random() % 200000);
      std::vector<std::uint64_t> bits(count);
      const std::uint32_t least = kernels.noise(tokens, key, bits.data());
      std::uint64_t lowest = ~0ULL;
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(bits[i], reference.bits(tokens[i])) << kernels.name;
        lowest = std::min(lowest, bits[i]);
      }
      EXPECT_EQ(least, lowest >> 32);
    }
    for (const std::uint32_t first : {0U, 64U, 128000U}) {
      std::vector<std::uint64_t> bits(kBlock);
      const std::uint32_t least = kernels.noise_range(first, key, bits.data());
      for (std::uint32_t i = 0; i < kBlock; ++i) {
        ASSERT_EQ(bits[i], reference.bits(first + i)) << kernels.name;
      }
      EXPECT_EQ(least, *std::min_element(bits.begin(), bits.end()) >> 32);
    }
  }
}

}  // namespace
}  // namespace paceline::sampling
