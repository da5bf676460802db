#include "model/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace paceline::model {
namespace {

TEST(HalfTest, EveryValueIsSignTimesMantissaTimesPowerAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const int mantissa = static_cast<int>(bits & 1023);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0);
      EXPECT_EQ(std::isinf(value), mantissa == 0);
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(value, bits >= 0x8000 ? -magnitude : magnitude) << bits;
    ASSERT_EQ(float_to_half(value), half) << bits;
  }
}

TEST(HalfTest, RoundsToTheNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (half_to_float(low) + half_to_float(high)) / 2;  // exact in a float
    ASSERT_EQ(float_to_half(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(float_to_half(-std::nextafter(middle, 1e9F)), high | 0x8000) << bits;
  }
}

TEST(HalfTest, LargeNumbersInfinityAndNan) {
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::nanf("")))));
  EXPECT_EQ(float_to_half(1e-10F), 0);
}

TEST(HalfTest, BfloatIsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bfloat_to_float(0x3f80), 1.0F);
  EXPECT_EQ(bfloat_to_float(0xc040), -3.0F);
}

TEST(HalfTest, BfloatsComeBackAndAreRoundedToTheNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto bfloat = static_cast<std::uint16_t>(bits);
    const float value = bfloat_to_float(bfloat);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(value)))) << bits;
      continue;
    }
    ASSERT_EQ(float_to_bfloat(value), bfloat) << bits;
    if (std::isinf(value)) continue;
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000U);
    ASSERT_EQ(float_to_bfloat(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(float_to_bfloat(std::nextafter(middle, 0.0F)), bits);
  }
}

TEST(HalfTest, FloatsOfEightBits) {
  EXPECT_EQ(f8e4m3_to_float(0x7e), 448.0F);
  EXPECT_EQ(f8e4m3_to_float(0xb8), -1.0F);
  EXPECT_EQ(f8e4m3_to_float(0x01), 0x1p-9F);
  EXPECT_TRUE(std::signbit(f8e4m3_to_float(0x80)));
  EXPECT_TRUE(std::isnan(f8e4m3_to_float(0x7f)));
}

}  // namespace
}  // namespace paceline::model
