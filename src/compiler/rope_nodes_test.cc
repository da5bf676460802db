#include "compiler/rope_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace paceline::compiler {
namespace {

using model::RopeConfig;
using model::RopeScaling;

constexpr std::uint32_t kDimensions = 64;

double plain(std::size_t i, double theta = 10000.0) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / kDimensions);
}

std::vector<float> frequencies(const RopeConfig& rope, const std::vector<float>& factors = {}) {
  return rope_frequencies(rope, kDimensions, factors);
}

TEST(RopeNodesTest, FrequenciesArePowersOfTheBase) {
  RopeConfig rope;
  rope.theta = 500000.0F;
  const auto found = frequencies(rope);
  ASSERT_EQ(found.size(), kDimensions / 2);
  EXPECT_EQ(found[0], 1.0F);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i] / plain(i, 500000.0), 1.0, 1e-6);
  }
  EXPECT_EQ(rope_frequencies(rope, 2, {}), std::vector<float>{1.0F});
}

TEST(RopeNodesTest, EveryPairHasItsOwnDivisor) {
  std::vector<float> factors(kDimensions / 2);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = 1.0F + static_cast<float>(i);
  const auto by_factor = frequencies({}, factors);
  RopeConfig rope;
  rope.scaling = RopeScaling::kLlama3;  // a GGUF's divisors stand in place of the formula
  rope.factor = 8.0F;
  rope.original_context_tokens = 1024;
  rope.divisors = factors;
  const auto by_divisor = frequencies(rope);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    EXPECT_NEAR(by_factor[i] * factors[i] / plain(i), 1.0, 1e-6);
    EXPECT_EQ(by_divisor[i], by_factor[i]);
  }
}

TEST(RopeNodesTest, Llama3DividesLowFrequenciesOnly) {
  RopeConfig rope;
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = 8.0F;
  rope.original_context_tokens = 1024;
  const auto found = frequencies(rope);
  std::size_t between = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double turns = 1024 * plain(i) / (2 * std::numbers::pi);
    const double share = found[i] / plain(i);
    const double smooth = std::clamp((turns - 1) / 3, 0.0, 1.0);
    EXPECT_NEAR(share, (1 - smooth) / 8 + smooth, 1e-5) << i;
    if (smooth > 0.0 && smooth < 1.0) ++between;
  }
  EXPECT_GE(between, 3U);
}

TEST(RopeNodesTest, YarnRampsBetweenTwoPairs) {
  RopeConfig rope;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4.0F;
  rope.original_context_tokens = 2048;
  const auto whole = frequencies(rope);
  rope.truncate = false;
  const auto real = frequencies(rope);
  const auto pair = [](double turns) {
    return kDimensions * std::log(2048 / (turns * 2 * std::numbers::pi)) / (2 * std::log(10000.0));
  };
  const double low = pair(32);
  const double high = pair(1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto share = [&](double begin, double end) {
      const double ramp = std::clamp((static_cast<double>(i) - begin) / (end - begin), 0.0, 1.0);
      return ramp / 4 + (1 - ramp);
    };
    EXPECT_NEAR(whole[i] / plain(i), share(std::floor(low), std::ceil(high)), 1e-5) << i;
    EXPECT_NEAR(real[i] / plain(i), share(low, high), 1e-5) << i;
  }
  EXPECT_NE(whole, real);
}

}  // namespace
}  // namespace paceline::compiler
