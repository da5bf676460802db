#include "sampling/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace paceline::sampling {
namespace {

// 1 ulp is at most 2.2e-16 relative; the C library is within one of the truth.
constexpr double kTolerance = 6e-16;

void expect_near(double got, double want, double argument) {
  EXPECT_LE(std::abs(got - want), kTolerance * std::abs(want)) << "at " << argument;
}

TEST(ExactMathTest, ExpAgreesWithTheLibrary) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 100000; ++i) {
    const double x = -std::pow(10.0, 6 * uniform(random) - 3.2);
    if (x > -700) expect_near(exact_exp(x), std::exp(x), x);
  }
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_exp(-701), 0);
  EXPECT_EQ(exact_exp(-1e300), 0);
  EXPECT_EQ(exact_exp(-std::numeric_limits<double>::infinity()), 0);
}

TEST(ExactMathTest, LogAgreesWithTheLibrary) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::pow(10.0, 40 * uniform(random) - 20);
    expect_near(exact_log(x), std::log(x), x);
  }
  EXPECT_EQ(exact_log(1), 0);
}

TEST(ExactMathTest, MinusLogOfOneMinusKeepsSmallNumbers) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 100000; ++i) {
    const double small = 0x1p-53 + std::pow(2.0, -50 * uniform(random)) * 0.99;
    const double v = std::floor(small * 0x1p53) * 0x1p-53;
    expect_near(exact_minus_log1m(v), -std::log1p(-v), v);
  }
  EXPECT_EQ(exact_minus_log1m(0x1p-53), 0x1p-53);
}

// Bits noted once: they must not change with compiler, flags or machine, or the same seed would
// give another text after an update.
TEST(ExactMathTest, TheBitsStay) {
  EXPECT_EQ(exact_exp(-0.3), 0x1.7b4c869c37c05p-1);
  EXPECT_EQ(exact_exp(-12.34567), 0x1.23d360da16ebep-18);
  EXPECT_EQ(exact_log(3.7), 0x1.4eeee650ae55p+0);
  EXPECT_EQ(exact_log(1e-9), -0x1.4b927f32bffb8p+4);
  EXPECT_EQ(exact_minus_log1m(0.1875), 0x1.a93ed3c8ad9e3p-3);
}

}  // namespace
}  // namespace paceline::sampling
