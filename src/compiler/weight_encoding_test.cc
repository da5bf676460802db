#include "compiler/weight_encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

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

WeightEncoding choose(const model::TensorInfo& tensor, WeightKind kind = WeightKind::kKeep,
                      const WeightOptions& options = {}) {
  return choose_encoding({"w", tensor.shape, {{&tensor, 0, tensor.shape[0]}}}, kind, options);
}

/// The constants of a whole matrix.
struct Encoded {
  WeightEncoding encoding;
  EncodeStatus status = EncodeStatus::kDone;
  std::vector<std::byte> values;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint16_t> zero_points;
  std::vector<std::uint8_t> nibbles;
  RowFacts facts;

  explicit Encoded(const WeightEncoding& form) : encoding(form) {
    const std::uint64_t groups = form.rows * form.groups();
    values.resize(form.value_bytes());
    scales.resize(groups);
    zero_points.resize(form.zero_points == ZeroPoints::kHalf ? groups : 0);
    nibbles.resize(form.zero_points == ZeroPoints::kNibble ? groups : 0);
  }
  EncodedRows rows() { return {values, scales, zero_points, nibbles}; }
};

std::vector<float> definition(TensorType type, const std::string& blocks) {
  std::vector<float> values(blocks.size() / model::block_bytes(type) * model::block_elements(type));
  model::dequantize(type, as_bytes(blocks), values);
  return values;
}

/// As the writer does: what is not kept goes by way of floats, and so does what did not fit.
Encoded encode(const WeightEncoding& encoding, const std::string& blocks) {
  Encoded result(encoding);
  if (encoding.is_kept()) {
    result.status = encode_kept(encoding, as_bytes(blocks), result.rows(), result.facts);
    if (scales_fit(encoding, result.facts)) return result;
    return encode(as_f32(encoding), blocks);
  }
  std::vector<std::int8_t> scratch;
  result.status = encode_floats(encoding, definition(encoding.source, blocks), result.rows(),
                                scratch, result.facts);
  return result;
}

Encoded encode(const model::TensorInfo& tensor, const std::string& blocks) {
  Encoded result = encode(choose(tensor), blocks);
  EXPECT_EQ(result.status, EncodeStatus::kDone);
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
  std::vector<std::byte> packed((encoded.nibbles.size() + 1) / 2);
  for (std::size_t i = 0; i < encoded.nibbles.size(); ++i) {
    packed[i / 2] |= static_cast<std::byte>(encoded.nibbles[i] << (i % 2 * 4));
  }
  return decoded(
      {encoded.encoding.type, encoded.values, encoded.scales, encoded.zero_points, packed},
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
  ZeroPoints zero_points;
  double bound;
};

const Form kForms[] = {
    {TensorType::kF32, ov::element::f32, 0, ZeroPoints::kNone, 0},
    {TensorType::kF16, ov::element::f16, 0, ZeroPoints::kNone, 0},
    {TensorType::kBF16, ov::element::bf16, 0, ZeroPoints::kNone, 0},
    {TensorType::kQ8_0, ov::element::i8, 32, ZeroPoints::kNone, 0},
    {TensorType::kQ4_0, ov::element::i4, 32, ZeroPoints::kNone, 0},
    {TensorType::kQ5_0, ov::element::i8, 32, ZeroPoints::kNone, 0},
    {TensorType::kIQ4_NL, ov::element::i8, 32, ZeroPoints::kNone, 0},
    {TensorType::kQ4_1, ov::element::u4, 32, ZeroPoints::kHalf, 1e-3},
    {TensorType::kQ5_1, ov::element::u8, 32, ZeroPoints::kHalf, 1e-3},
    {TensorType::kQ2_K, ov::element::u4, 16, ZeroPoints::kHalf, 1e-3},
    {TensorType::kQ3_K, ov::element::i4, 16, ZeroPoints::kNone, 5e-4},
    {TensorType::kQ4_K, ov::element::u4, 32, ZeroPoints::kHalf, 1e-3},
    {TensorType::kQ5_K, ov::element::u8, 32, ZeroPoints::kHalf, 1e-3},
    {TensorType::kQ6_K, ov::element::i8, 16, ZeroPoints::kNone, 5e-4},
    {TensorType::kIQ4_XS, ov::element::i8, 32, ZeroPoints::kNone, 5e-4},
};

TEST(WeightEncodingTest, EveryTypeHasItsFormAndKeepsItsBound) {
  for (const Form& form : kForms) {
    for (const float magnitude : {0.02F, 1.0F, 100.0F}) {
      const model::TensorInfo tensor = matrix_info(form.source);
      const std::string blocks = random_blocks(form.source, kRows * kColumns, magnitude, 11);
      const Encoded encoded = encode(tensor, blocks);
      EXPECT_EQ(encoded.encoding.type, form.type) << model::to_string(form.source);
      EXPECT_EQ(encoded.encoding.group, form.group);
      EXPECT_EQ(encoded.encoding.zero_points, form.zero_points);
      EXPECT_LE(relative_error(tensor, blocks, encoded), form.bound)
          << model::to_string(form.source) << " at " << magnitude;
    }
  }
}

TEST(WeightEncodingTest, EveryTypeOfASourceHasAForm) {
  EXPECT_EQ(std::size(kForms), model::kTensorTypes - 1);  // F8_E4M3 has a test of its own
}

TEST(WeightEncodingTest, ShapesAreThoseOfGroups) {
  const WeightEncoding grouped = choose(matrix_info(TensorType::kQ6_K));
  EXPECT_EQ(grouped.values_shape(), (ov::Shape{16, 32, 16}));
  EXPECT_EQ(grouped.scales_shape(), (ov::Shape{16, 32, 1}));
  EXPECT_EQ(grouped.row_bytes(), 512U);
  EXPECT_EQ(choose(matrix_info(TensorType::kF16)).values_shape(), (ov::Shape{16, 512}));
  const WeightEncoding by_row = choose(matrix_info(TensorType::kF16), WeightKind::kInt8);
  EXPECT_EQ(by_row.values_shape(), (ov::Shape{16, 512}));
  EXPECT_EQ(by_row.scales_shape(), (ov::Shape{16, 1}));
  const model::TensorInfo stack = {"w", TensorType::kF16, {4, 16, 512}, 4 * 16 * 1024};
  const WeightEncoding experts = choose(stack, WeightKind::kInt4);
  EXPECT_EQ(experts.rows, 64U);
  EXPECT_EQ(experts.values_shape(), (ov::Shape{4, 16, 4, 128}));
  EXPECT_EQ(experts.scales_shape(), (ov::Shape{4, 16, 4, 1}));
  EXPECT_EQ(choose(stack, WeightKind::kInt8).scales_shape(), (ov::Shape{4, 16, 1}));
}

TEST(WeightEncodingTest, QuantizedFloatsAreNearThem) {
  const std::string blocks = random_blocks(TensorType::kBF16, kRows * kColumns, 0.1F, 12);
  const struct {
    WeightKind kind;
    ov::element::Type type;
    std::uint64_t group;
    double bound;
  } kKinds[] = {{WeightKind::kInt8, ov::element::i8, kColumns, 0.005},
                {WeightKind::kInt4, ov::element::i4, 128, 0.13},
                // Clipped by the search, a value is up to a step of 2 / 15 off.
                {WeightKind::kInt4Asymmetric, ov::element::u4, 128, 0.14},
                {WeightKind::kF16, ov::element::f16, 0, 0x1p-11},
                {WeightKind::kBF16, ov::element::bf16, 0, 0},
                {WeightKind::kF32, ov::element::f32, 0, 0}};
  for (const auto& expected : kKinds) {
    const model::TensorInfo tensor = matrix_info(TensorType::kBF16);
    Encoded encoded = encode(choose(tensor, expected.kind), blocks);
    ASSERT_EQ(encoded.status, EncodeStatus::kDone);
    EXPECT_EQ(encoded.encoding.type, expected.type);
    EXPECT_EQ(encoded.encoding.group, expected.group);
    EXPECT_LE(relative_error(tensor, blocks, encoded), expected.bound) << to_string(expected.kind);
    // What decode_rows says is what an independent reading says.
    std::vector<float> values(kRows * kColumns);
    decode_rows(encoded.encoding, encoded.rows(), values);
    EXPECT_EQ(values, meaning(encoded)) << to_string(expected.kind);
  }
}

TEST(WeightEncodingTest, KeptRowsAreDecodedAsOthersDecodeThem) {
  for (const Form& form : kForms) {
    Encoded encoded =
        encode(matrix_info(form.source), random_blocks(form.source, kRows * kColumns, 1.0F, 13));
    std::vector<float> values(kRows * kColumns);
    decode_rows(encoded.encoding, encoded.rows(), values);
    EXPECT_EQ(values, meaning(encoded)) << model::to_string(form.source);
  }
}

TEST(WeightEncodingTest, ColumnsThatNoGroupDividesAreInt8) {
  const WeightEncoding odd = choose(matrix_info(TensorType::kF32, 16, 100), WeightKind::kInt4);
  EXPECT_EQ(odd.type, ov::element::i8);
  EXPECT_EQ(odd.group, 100U);
  const WeightEncoding narrow = choose(matrix_info(TensorType::kF32, 16, 576), WeightKind::kInt4);
  EXPECT_EQ(narrow.type, ov::element::i4);
  EXPECT_EQ(narrow.group, 64U);
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

/// A matrix of blocks of 256 whose f16 numbers are `d`.
std::string with_scale(TensorType type, float d) {
  static const std::map<TensorType, std::vector<std::size_t>> kPlaces = {
      {TensorType::kQ2_K, {80, 82}}, {TensorType::kQ3_K, {108}}, {TensorType::kQ4_K, {0, 2}},
      {TensorType::kQ5_K, {0, 2}},   {TensorType::kQ6_K, {208}}, {TensorType::kIQ4_XS, {0}}};
  std::string blocks = random_blocks(type, kRows * kColumns, 1.0F, 5);
  const std::uint16_t bits = model::float_to_half(d);
  for (std::size_t begin = 0; begin < blocks.size(); begin += model::block_bytes(type)) {
    for (const std::size_t at : kPlaces.at(type)) std::memcpy(blocks.data() + begin + at, &bits, 2);
  }
  return blocks;
}

constexpr TensorType kLargeBlocks[] = {TensorType::kQ2_K, TensorType::kQ3_K, TensorType::kQ4_K,
                                       TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kIQ4_XS};

TEST(WeightEncodingTest, ScalesThatAnF16CannotHoldGiveExactF32) {
  for (const TensorType type : kLargeBlocks) {
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
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1,
                                TensorType::kQ5_1, TensorType::kQ5_K, TensorType::kIQ4_XS}) {
    std::string blocks = random_blocks(type, kRows * kColumns, 1.0F, 6);
    std::memcpy(blocks.data() + 7 * model::block_bytes(type), &kInfinity, 2);
    EXPECT_EQ(encode(choose(matrix_info(type)), blocks).status, EncodeStatus::kScaleNotFinite);
  }
  std::string blocks = random_blocks(TensorType::kF16, 32, 1.0F, 6);
  std::memcpy(blocks.data() + 10, &kInfinity, 2);
  const model::TensorInfo tensor = matrix_info(TensorType::kF16, 1, 32);
  for (const WeightKind kind : {WeightKind::kKeep, WeightKind::kF16, WeightKind::kF32,
                                WeightKind::kBF16, WeightKind::kInt8, WeightKind::kInt4}) {
    EXPECT_EQ(encode(choose(tensor, kind), blocks).status, EncodeStatus::kNotFinite)
        << to_string(kind);
  }
}

TEST(WeightEncodingTest, WhatAnF16CannotHoldIsRefused) {
  std::string blocks = random_blocks(TensorType::kF32, 32, 1.0F, 6);
  const float large = 70000.0F;
  std::memcpy(blocks.data() + 8, &large, 4);
  const model::TensorInfo tensor = matrix_info(TensorType::kF32, 1, 32);
  EXPECT_EQ(encode(choose(tensor, WeightKind::kF16), blocks).status, EncodeStatus::kTooLarge);
  EXPECT_EQ(encode(choose(tensor, WeightKind::kBF16), blocks).status, EncodeStatus::kDone);
  EXPECT_EQ(encode(choose(tensor, WeightKind::kInt4), blocks).status, EncodeStatus::kDone);
}

TEST(WeightEncodingTest, FloatsOfEightBitsAreKeptAsHalves) {
  const std::string blocks(256, '\x39');  // 1.125
  const model::TensorInfo tensor = matrix_info(TensorType::kF8_E4M3, 16, 16);
  const Encoded encoded = encode(tensor, blocks);
  EXPECT_EQ(encoded.encoding.type, ov::element::f16);
  EXPECT_EQ(meaning(encoded), std::vector<float>(256, 1.125F));
}

}  // namespace
}  // namespace paceline::compiler
