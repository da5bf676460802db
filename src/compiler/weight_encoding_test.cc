#include "compiler/weight_encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/decoded_weights.h"
#include "compiler/small_llama.h"
#include "model/dequantize.h"
#include "model/half.h"

namespace paceline::compiler {
namespace {

using model::TensorType;

constexpr std::uint64_t kRows = 16;
constexpr std::uint64_t kColumns = 512;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

model::TensorInfo matrix_info(TensorType type, std::uint64_t rows = kRows,
                              std::uint64_t columns = kColumns) {
  return {"w",
          type,
          {rows, columns},
          rows * columns / model::block_elements(type) * model::block_bytes(type)};
}

/// The constants of a whole matrix.
struct Encoded {
  WeightEncoding encoding;
  std::vector<std::byte> values;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint16_t> zero_points;
};

Encoded encode(const model::TensorInfo& tensor, const std::string& blocks) {
  Encoded result;
  result.encoding = choose_encoding(tensor, as_bytes(blocks)).value();
  const WeightEncoding& encoding = result.encoding;
  const std::uint64_t groups = encoding.groups();
  result.values.resize(encoding.rows * encoding.row_bytes());
  result.scales.resize(encoding.rows * groups);
  result.zero_points.resize(encoding.has_zero_points ? result.scales.size() : 0);
  const std::size_t row_bytes = blocks.size() / encoding.rows;
  for (std::uint64_t row = 0; row < encoding.rows; ++row) {
    std::span<std::uint16_t> zero_points(result.zero_points);
    EncodedRow out = {
        std::span(result.values).subspan(row * encoding.row_bytes(), encoding.row_bytes()),
        std::span(result.scales).subspan(row * groups, groups),
        zero_points.empty() ? zero_points : zero_points.subspan(row * groups, groups)};
    EXPECT_TRUE(encode_row(encoding, as_bytes(blocks).subspan(row * row_bytes, row_bytes), out));
  }
  return result;
}

std::vector<float> meaning(const Encoded& encoded) {
  const std::size_t elements = encoded.encoding.rows * encoded.encoding.columns;
  std::vector<float> result(elements);
  if (encoded.encoding.group == 0) {
    const TensorType type = encoded.encoding.type == ov::element::f32   ? TensorType::kF32
                            : encoded.encoding.type == ov::element::f16 ? TensorType::kF16
                                                                        : TensorType::kBF16;
    model::dequantize(type, encoded.values, result);
    return result;
  }
  return decoded({encoded.encoding.type, encoded.values, encoded.scales, encoded.zero_points},
                 elements);
}

/// The largest error, relative to the largest |weight| by definition.
double relative_error(const model::TensorInfo& tensor, const std::string& blocks,
                      const Encoded& encoded) {
  std::vector<float> expected(encoded.encoding.rows * encoded.encoding.columns);
  model::dequantize(tensor.type, as_bytes(blocks), expected);
  const std::vector<float> actual = meaning(encoded);
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    error = std::max(error, std::abs(static_cast<double>(actual[i]) - expected[i]));
  }
  return largest == 0 ? error : error / largest;
}

struct Form {
  TensorType source;
  ov::element::Type type;
  std::uint64_t group;
  bool zero_points;
  double bound;
};

const Form kForms[] = {
    {TensorType::kF32, ov::element::f32, 0, false, 0},
    {TensorType::kF16, ov::element::f16, 0, false, 0},
    {TensorType::kBF16, ov::element::bf16, 0, false, 0},
    {TensorType::kQ8_0, ov::element::i8, 32, false, 0},
    {TensorType::kQ4_0, ov::element::i4, 32, false, 0},
    {TensorType::kQ4_1, ov::element::u4, 32, true, 1e-3},
    {TensorType::kQ4_K, ov::element::u4, 32, true, 1e-3},
    {TensorType::kQ6_K, ov::element::i8, 16, false, 5e-4},
};

TEST(WeightEncodingTest, EveryTypeHasItsFormAndKeepsItsBound) {
  for (const Form& form : kForms) {
    for (const float magnitude : {0.02F, 1.0F, 100.0F}) {
      const model::TensorInfo tensor = matrix_info(form.source);
      const std::string blocks = random_blocks(form.source, kRows * kColumns, magnitude, 11);
      const Encoded encoded = encode(tensor, blocks);
      EXPECT_EQ(encoded.encoding.type, form.type) << model::to_string(form.source);
      EXPECT_EQ(encoded.encoding.group, form.group);
      EXPECT_EQ(encoded.encoding.has_zero_points, form.zero_points);
      EXPECT_LE(relative_error(tensor, blocks, encoded), form.bound)
          << model::to_string(form.source) << " at " << magnitude;
    }
  }
}

TEST(WeightEncodingTest, ShapesAreThoseOfGroups) {
  const auto blocks = random_blocks(TensorType::kQ6_K, kRows * kColumns, 1.0F, 1);
  const auto encoding = choose_encoding(matrix_info(TensorType::kQ6_K), as_bytes(blocks)).value();
  EXPECT_EQ(encoding.values_shape(), (ov::Shape{16, 32, 16}));
  EXPECT_EQ(encoding.scales_shape(), (ov::Shape{16, 32, 1}));
  EXPECT_EQ(encoding.row_bytes(), 512U);
  const auto plain = random_blocks(TensorType::kF16, kRows * kColumns, 1.0F, 1);
  EXPECT_EQ(choose_encoding(matrix_info(TensorType::kF16), as_bytes(plain))->values_shape(),
            (ov::Shape{16, 512}));
}

/// One Q4_1 block of random quants.
std::string q4_1_block(float d, float m, std::uint32_t seed) {
  std::string block = random_blocks(TensorType::kQ4_1, 32, 1.0F, seed);
  const std::uint16_t bits[] = {model::float_to_half(d), model::float_to_half(m)};
  std::memcpy(block.data(), bits, 4);
  return block;
}

TEST(WeightEncodingTest, BlocksWithoutAUsableZeroPoint) {
  const struct {
    float d;
    float m;
  } kBlocks[] = {
      {0.0F, 0.0F},        // all zero
      {0.0F, 0.75F},       // constant: the zero point would be infinite
      {0.0F, -0.75F},      //
      {0x1p-24F, 0.75F},   // nearly constant: the zero point is beyond an f16
      {-0x1p-20F, -0.5F},  //
      {0x1p-14F, 1.0F},    // a zero point of many thousands
      {0.05F, 0x1p-24F},   // a tiny zero point
      {-0.05F, 0.4F},      // a negative scale
      {0.05F, -0.0F},     {1000.0F, -8000.0F}, {0x1p-24F, -0x1p-22F},  // all subnormal
  };
  for (const auto& block : kBlocks) {
    std::string blocks;
    for (std::uint32_t i = 0; i < kRows; ++i) blocks += q4_1_block(block.d, block.m, i);
    const model::TensorInfo tensor = matrix_info(TensorType::kQ4_1, kRows, 32);
    const Encoded encoded = encode(tensor, blocks);
    EXPECT_EQ(encoded.encoding.type, ov::element::u4);
    EXPECT_LE(relative_error(tensor, blocks, encoded), 1e-3) << block.d << " " << block.m;
    for (const std::uint16_t bits : encoded.zero_points) EXPECT_NE(bits & 0x7c00, 0x7c00);
  }
}

/// A matrix of Q4_K or Q6_K whose block scales are `d`.
std::string with_scale(TensorType type, float d) {
  std::string blocks = random_blocks(type, kRows * kColumns, 1.0F, 5);
  const std::uint16_t bits = model::float_to_half(d);
  for (std::size_t begin = 0; begin < blocks.size(); begin += model::block_bytes(type)) {
    std::memcpy(blocks.data() + begin + (type == TensorType::kQ6_K ? 208 : 0), &bits, 2);
    if (type == TensorType::kQ4_K) std::memcpy(blocks.data() + begin + 2, &bits, 2);
  }
  return blocks;
}

TEST(WeightEncodingTest, ScalesThatAnF16CannotHoldGiveExactF32) {
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ6_K}) {
    for (const float d : {0x1p-24F, 60000.0F}) {
      const std::string blocks = with_scale(type, d);
      const Encoded encoded = encode(matrix_info(type), blocks);
      EXPECT_EQ(encoded.encoding.type, ov::element::f32) << d;
      EXPECT_EQ(relative_error(matrix_info(type), blocks, encoded), 0.0) << d;
    }
    for (const float d : {0x1p-12F, 0x1p-16F, 0x1p-18F, 500.0F, 0.0F}) {  // the edges, either way
      const std::string blocks = with_scale(type, d);
      EXPECT_LE(relative_error(matrix_info(type), blocks, encode(matrix_info(type), blocks)), 1e-3)
          << d;
    }
  }
}

TEST(WeightEncodingTest, WhatIsNotFiniteIsRefused) {
  const std::uint16_t kInfinity = 0x7c00;
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1}) {
    std::string blocks = random_blocks(type, kRows * kColumns, 1.0F, 6);
    std::memcpy(blocks.data() + 7 * model::block_bytes(type), &kInfinity, 2);
    const auto refused = choose_encoding(matrix_info(type), as_bytes(blocks));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "tensor \"w\": has a scale that is not finite");
  }
  std::string blocks = random_blocks(TensorType::kF16, 32, 1.0F, 6);
  std::memcpy(blocks.data() + 10, &kInfinity, 2);
  const auto encoding = choose_encoding(matrix_info(TensorType::kF16, 1, 32), as_bytes(blocks));
  std::vector<std::byte> values(64);
  EXPECT_FALSE(encode_row(*encoding, as_bytes(blocks), {values, {}, {}}));
}

}  // namespace
}  // namespace paceline::compiler
