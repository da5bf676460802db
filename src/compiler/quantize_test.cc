#include "compiler/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "model/half.h"

namespace paceline::compiler {
namespace {

constexpr QuantKind kKinds[] = {QuantKind::kInt4, QuantKind::kInt4Asymmetric, QuantKind::kInt8};

struct Quantized {
  QuantStatus status = QuantStatus::kDone;
  std::vector<std::int8_t> quants;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint8_t> zero_points;
  ErrorSums sums;
};

Quantized quantized(const std::vector<float>& values, const QuantOptions& options) {
  Quantized result;
  result.quants.resize(values.size());
  result.scales.resize(values.size() / options.group);
  if (options.kind == QuantKind::kInt4Asymmetric) result.zero_points.resize(result.scales.size());
  result.status =
      quantize(values, options, {result.quants, result.scales, result.zero_points}, result.sums);
  return result;
}

double meaning(const Quantized& result, const QuantOptions& options, std::size_t i) {
  const std::size_t group = i / options.group;
  const int zero_point = result.zero_points.empty() ? 0 : result.zero_points[group];
  return (result.quants[i] - zero_point) *
         static_cast<double>(model::half_to_float(result.scales[group]));
}

/// Seldom far from 0, as weights are.
std::vector<float> random_weights(std::size_t count, std::uint32_t seed, float mean = 0.0F) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> distribution(5.0F);
  std::vector<float> values(count);
  for (float& value : values) value = 0.02F * distribution(random) + mean;
  return values;
}

int lowest(QuantKind kind) {
  if (kind == QuantKind::kInt8) return -127;
  return kind == QuantKind::kInt4 ? -8 : 0;
}
int highest(QuantKind kind) {
  if (kind == QuantKind::kInt8) return 127;
  return kind == QuantKind::kInt4 ? 7 : 15;
}

TEST(QuantizeTest, WithoutSearchNoValueIsFurtherOffThanItsStep) {
  for (const QuantKind kind : kKinds) {
    for (const std::size_t group : {32U, 64U, 128U}) {
      const QuantOptions options = {kind, group, false};
      const auto values = random_weights(40 * group, 1);
      const Quantized result = quantized(values, options);
      ASSERT_EQ(result.status, QuantStatus::kDone);
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_GE(result.quants[i], lowest(kind));
        EXPECT_LE(result.quants[i], highest(kind));
        const double step = std::abs(model::half_to_float(result.scales[i / group]));
        // Half a step; a whole one where int4 has no 8, or the zero point was rounded.
        const double bound = kind == QuantKind::kInt8 ? 0.5 : 1.0;
        // The rounding of the scale itself is up to 2^-11 of the value.
        ASSERT_LE(std::abs(meaning(result, options, i) - values[i]),
                  bound * step + std::abs(values[i]) * 0x1p-11 + 1e-9)
            << static_cast<int>(kind) << " " << group << " " << i;
      }
    }
  }
}

TEST(QuantizeTest, SumsAreThoseOfTheErrors) {
  for (const QuantKind kind : kKinds) {
    for (const bool search : {false, true}) {
      const QuantOptions options = {kind, 64, search};
      const auto values = random_weights(640, 2, 0.01F);
      const Quantized result = quantized(values, options);
      double squares = 0;
      double errors = 0;
      float largest = 0;
      std::vector<float> stored;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double error = meaning(result, options, i) - values[i];
        squares += static_cast<double>(values[i]) * values[i];
        errors += error * error;
        largest = std::max(largest, static_cast<float>(std::abs(error)));
        stored.push_back(static_cast<float>(meaning(result, options, i)));
      }
      EXPECT_NEAR(result.sums.relative(), std::sqrt(errors / squares), 1e-6);
      EXPECT_NEAR(result.sums.largest_error, largest, 1e-6);
      EXPECT_GT(result.sums.weighted_relative(), 0.0);
      ErrorSums measured;
      measure_errors(values, stored, 64, measured);
      EXPECT_NEAR(measured.relative(), result.sums.relative(), 1e-6);
      EXPECT_NEAR(measured.weighted_relative(), result.sums.weighted_relative(), 1e-6);
    }
  }
}

TEST(QuantizeTest, SearchIsBetterThanMaxAbsAndNeverWorse) {
  for (const QuantKind kind : {QuantKind::kInt4, QuantKind::kInt4Asymmetric}) {
    for (const std::size_t group : {32U, 64U, 128U}) {
      double plain_total = 0;
      double searched_total = 0;
      for (std::uint32_t seed = 0; seed < 50; ++seed) {
        const auto values = random_weights(group, seed);
        const auto plain = quantized(values, {kind, group, false}).sums;
        const auto searched = quantized(values, {kind, group, true}).sums;
        EXPECT_LE(searched.weighted_error_squares, plain.weighted_error_squares) << seed;
        plain_total += plain.weighted_error_squares;
        searched_total += searched.weighted_error_squares;
      }
      EXPECT_LT(searched_total, 0.95 * plain_total) << group;
    }
  }
}

/// By trying a thousand scales and counting errors one by one.
double best_weighted_error(const std::vector<float>& values) {
  double mean = 0;
  float extreme = 0;
  for (const float value : values) {
    mean += static_cast<double>(value) * value;
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  mean = std::sqrt(mean / static_cast<double>(values.size()));
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 1000; ++i) {
    const double scale = extreme / -8.0 * (0.5 + i * 0.001);
    double sum = 0;
    for (const float value : values) {
      const double quant = std::clamp(std::nearbyint(value / scale), -8.0, 7.0);
      const double error = value - scale * quant;
      sum += (std::abs(value) + mean) * error * error;
    }
    best = std::min(best, sum);
  }
  return best;
}

TEST(QuantizeTest, SearchFindsNearlyTheBestScaleThereIs) {
  double found = 0;
  double best = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    const auto values = random_weights(128, 100 + seed);
    found += quantized(values, {QuantKind::kInt4, 128, true}).sums.weighted_error_squares;
    best += best_weighted_error(values);
  }
  EXPECT_LT(found, 1.03 * best);
}

TEST(QuantizeTest, OneOutlierDoesNotSpoilItsGroup) {
  auto values = random_weights(128, 3);
  for (float& value : values) value = std::clamp(value, -0.05F, 0.05F);
  values[77] = 0.15F;
  const auto plain = quantized(values, {QuantKind::kInt4, 128, false}).sums;
  const auto searched = quantized(values, {QuantKind::kInt4, 128, true}).sums;
  EXPECT_LT(searched.weighted_error_squares, plain.weighted_error_squares);
  EXPECT_LT(searched.weighted_error_squares, 1.05 * best_weighted_error(values));
}

TEST(QuantizeTest, ZerosStayZeros) {
  for (const QuantKind kind : kKinds) {
    for (const bool search : {false, true}) {
      const QuantOptions options = {kind, 32, search};
      std::vector<float> values(96, 0.0F);
      for (std::size_t i = 32; i < 64; ++i) values[i] = i % 3 == 0 ? 0.0F : 0.7F;
      const Quantized result = quantized(values, options);
      ASSERT_EQ(result.status, QuantStatus::kDone);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] != 0.0F) continue;
        EXPECT_EQ(meaning(result, options, i), 0.0) << i;
      }
    }
  }
}

TEST(QuantizeTest, NumbersTooSmallForAScaleBecomeZerosOrNear) {
  for (const QuantKind kind : kKinds) {
    for (const float tiny : {0x1p-149F, 0x1p-126F, 1e-30F, 1e-9F, 1e-7F, 1e-5F}) {
      const QuantOptions options = {kind, 32, true};
      std::vector<float> values(64, tiny);
      for (std::size_t i = 0; i < values.size(); i += 2) values[i] = -tiny / 2;
      const Quantized result = quantized(values, options);
      ASSERT_EQ(result.status, QuantStatus::kDone) << tiny;
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(std::isfinite(meaning(result, options, i)));
        // f16 steps of 2^-24 times the largest quant, at worst.
        EXPECT_LE(std::abs(meaning(result, options, i) - values[i]), 128 * 0x1p-24) << tiny;
      }
    }
  }
}

TEST(QuantizeTest, ZeroPointsFitANibbleHoweverSmallTheNumbers) {
  for (int steps = 1; steps < 200; ++steps) {
    std::vector<float> values(32, 0.0F);
    values[3] = -static_cast<float>(steps) * 0x1p-149F;
    const Quantized result = quantized(values, {QuantKind::kInt4Asymmetric, 32, true});
    ASSERT_EQ(result.status, QuantStatus::kDone);
    ASSERT_LE(result.zero_points[0], 15) << steps;
    for (const std::int8_t quant : result.quants) ASSERT_TRUE(quant >= 0 && quant <= 15) << steps;
  }
}

TEST(QuantizeTest, WhatIsNotFiniteOrTooLargeIsRefused) {
  for (const QuantKind kind : kKinds) {
    for (const std::size_t at : {0U, 31U, 63U, 700U, 1279U}) {
      const QuantOptions options = {kind, 64, true};
      auto values = random_weights(1280, 4);
      for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
        values[at] = bad;
        EXPECT_EQ(quantized(values, options).status, QuantStatus::kNotFinite);
      }
      values[at] = 1e8F;
      EXPECT_EQ(quantized(values, options).status, QuantStatus::kTooLarge);
      values[at] = 60000.0F;
      EXPECT_EQ(quantized(values, options).status, QuantStatus::kDone);
    }
  }
}

TEST(QuantizeTest, Int8TakesRowsOfAnyLength) {
  for (const std::size_t group : {1U, 7U, 16U, 100U, 577U}) {
    const QuantOptions options = {QuantKind::kInt8, group, false};
    const auto values = random_weights(3 * group, 5);
    const Quantized result = quantized(values, options);
    ASSERT_EQ(result.status, QuantStatus::kDone);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double step = model::half_to_float(result.scales[i / group]);
      ASSERT_LE(std::abs(meaning(result, options, i) - values[i]),
                0.5 * step + std::abs(values[i]) * 0x1p-11);
    }
  }
}

TEST(QuantizeTest, GroupsDoNotKnowOfEachOther) {
  const QuantOptions options = {QuantKind::kInt4, 32, true};
  const auto values = random_weights(32 * 21, 6);
  const Quantized all = quantized(values, options);
  for (std::size_t group = 0; group < 21; ++group) {
    const std::vector<float> one(values.begin() + 32 * group, values.begin() + 32 * (group + 1));
    const Quantized alone = quantized(one, options);
    EXPECT_EQ(alone.scales[0], all.scales[group]);
    EXPECT_TRUE(
        std::equal(alone.quants.begin(), alone.quants.end(), all.quants.begin() + 32 * group));
  }
}

TEST(QuantizeTest, HalvesAndBfloatsAreWidenedExactly) {
  std::vector<std::uint16_t> bits(0x10000);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<float> halves(bits.size() - 5);  // an odd end
  std::vector<float> bfloats(bits.size() - 5);
  const auto* data = reinterpret_cast<const std::byte*>(bits.data());
  widen_half(data, halves);
  widen_bfloat(data, bfloats);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float half = model::half_to_float(bits[i]);
    const float bfloat = model::bfloat_to_float(bits[i]);
    ASSERT_EQ(std::isnan(halves[i]), std::isnan(half)) << i;
    if (!std::isnan(half)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(halves[i]), std::bit_cast<std::uint32_t>(half)) << i;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(bfloats[i]), std::bit_cast<std::uint32_t>(bfloat)) << i;
  }
}

TEST(QuantizeTest, NibblesAreTwoAByteTheFirstLow) {
  std::vector<std::int8_t> quants;
  for (int i = 0; i < 74; ++i) quants.push_back(static_cast<std::int8_t>(i * 5 % 16 - 8));
  std::vector<std::byte> packed(37);
  pack_nibbles(quants, packed.data());
  for (std::size_t i = 0; i < quants.size(); ++i) {
    const int pair = std::to_integer<int>(packed[i / 2]);
    EXPECT_EQ(i % 2 == 0 ? pair & 15 : pair >> 4, quants[i] & 15) << i;
  }
}

}  // namespace
}  // namespace paceline::compiler
