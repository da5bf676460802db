#include "wire/int8_rows.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace paceline::wire {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor f32_rows(const std::vector<float>& values, std::uint64_t rows) {
  return {"hidden",
          ElementType::kF32,
          {rows, values.size() / rows},
          SharedBytes::copy_of(std::as_bytes(std::span(values)))};
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.bytes().data(), tensor.data.size());
  return values;
}

BoundarySpec spec_of(const Tensor& tensor) {
  return {tensor.name, tensor.type, {tensor.shape.begin() + 1, tensor.shape.end()}};
}

/// There and back.
std::vector<float> returned(const std::vector<float>& values, std::uint64_t rows = 1) {
  const Tensor native = f32_rows(values, rows);
  const auto coded = to_int8(native);
  EXPECT_TRUE(coded) << coded.error().message();
  const auto back = from_int8(*coded, spec_of(native));
  EXPECT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->name, native.name);
  EXPECT_EQ(back->type, native.type);
  EXPECT_EQ(back->shape, native.shape);
  return floats_of(*back);
}

/// Activations as they are: most small, a few channels huge.
std::vector<float> activations(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = normal(random) * (i % 97 == 0 ? 900.0F : 1.0F);
  return values;
}

TEST(Int8RowsTest, EachValueComesBackWithinHalfAStepOfItsGroup) {
  for (const std::size_t width : {1, 2, 31, 32, 33, 64, 100, 576}) {
    const auto values = activations(3 * width, static_cast<unsigned>(width));
    const auto back = returned(values, 3);
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t begin = 0; begin < width; begin += kInt8Group) {
        const std::size_t end = std::min<std::size_t>(width, begin + kInt8Group);
        float largest = 0;
        for (std::size_t i = begin; i < end; ++i) {
          largest = std::max(largest, std::abs(values[row * width + i]));
        }
        const float step = largest / 127 * (1 + 1.0F / 128);
        for (std::size_t i = row * width + begin; i < row * width + end; ++i) {
          EXPECT_LE(std::abs(back[i] - values[i]), step / 2 * 1.0001F) << width << " " << i;
        }
      }
    }
  }
}

TEST(Int8RowsTest, ARowIsItsCodesAndThenItsScales) {
  std::vector<float> values(kInt8Group + 2, 0.0F);
  values[0] = -127;
  values[1] = 63.5F;  // a tie goes to the even code
  values[2] = 64.5F;
  values[kInt8Group] = 254;
  const auto coded = to_int8(f32_rows(values, 1));
  ASSERT_TRUE(coded) << coded.error().message();
  EXPECT_EQ(coded->type, ElementType::kI8);
  EXPECT_THAT(coded->shape, ElementsAre(1, int8_row_bytes(values.size())));
  const auto bytes = coded->data.bytes();
  ASSERT_EQ(bytes.size(), values.size() + 4);
  const auto code = [&](std::size_t i) {
    return static_cast<int>(static_cast<std::int8_t>(bytes[i]));
  };
  EXPECT_EQ(code(0), -127);
  EXPECT_EQ(code(1), 64);
  EXPECT_EQ(code(2), 64);
  EXPECT_EQ(code(3), 0);
  EXPECT_EQ(code(kInt8Group), 127);
  std::array<std::uint16_t, 2> scales = {};
  std::memcpy(scales.data(), bytes.data() + values.size(), sizeof(scales));
  EXPECT_THAT(scales, ElementsAre(0x3f80, 0x4000));  // 1 and 2 as bf16
}

TEST(Int8RowsTest, ARowTakesLittleMoreThanAByteForEachValue) {
  EXPECT_EQ(int8_row_bytes(1), 3U);
  EXPECT_EQ(int8_row_bytes(kInt8Group), kInt8Group + 2);
  EXPECT_EQ(int8_row_bytes(kInt8Group + 1), kInt8Group + 5);
  EXPECT_LT(int8_row_bytes(4096), 4096 * 1.07);
}

TEST(Int8RowsTest, TheCodeOfARowDependsOnThatRowAlone) {
  const std::size_t width = 100;
  const auto values = activations(5 * width, 3);
  const auto all = to_int8(f32_rows(values, 5)).value();
  for (std::size_t row = 0; row < 5; ++row) {
    const std::vector<float> alone(values.begin() + static_cast<std::ptrdiff_t>(row * width),
                                   values.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    const auto bytes = to_int8(f32_rows(alone, 1)).value().data;
    const auto part = all.data.bytes().subspan(row * bytes.size(), bytes.size());
    EXPECT_TRUE(std::ranges::equal(bytes.bytes(), part)) << row;
  }
}

TEST(Int8RowsTest, WhatIsNoNumberStaysInItsGroup) {
  for (const float odd : {kInf, -kInf, std::nanf("")}) {
    std::vector<float> values(3 * kInt8Group, 5.0F);
    values[kInt8Group + 3] = odd;
    const auto back = returned(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_there = i / kInt8Group == 1;
      EXPECT_EQ(std::isnan(back[i]), is_there) << i;
      if (is_there) continue;
      EXPECT_NEAR(back[i], 5.0F, 0.03F) << i;
    }
  }
}

TEST(Int8RowsTest, TheLargestAndTheSmallestNumbers) {
  const auto large = returned({FLT_MAX, -FLT_MAX, 1.0F});
  EXPECT_NEAR(large[0] / FLT_MAX, 1, 0.005);
  EXPECT_NEAR(large[1] / FLT_MAX, -1, 0.005);
  EXPECT_EQ(large[2], 0);
  EXPECT_THAT(returned({0.0F, -0.0F}), Each(0.0F));
  EXPECT_THAT(returned({FLT_MIN, std::numeric_limits<float>::denorm_min()}), Each(0.0F));
  EXPECT_NEAR(returned({FLT_MIN * 256})[0] / (FLT_MIN * 256), 1, 0.01);
}

TEST(Int8RowsTest, Bf16RowsComeBackAsBf16) {
  std::vector<std::uint16_t> bits;
  for (const float value : activations(576, 9)) {
    bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
  }
  const Tensor native = {"hidden",
                         ElementType::kBF16,
                         {2, 1, 288},
                         SharedBytes::copy_of(std::as_bytes(std::span(bits)))};
  const auto coded = to_int8(native);
  ASSERT_TRUE(coded) << coded.error().message();
  EXPECT_THAT(coded->shape, ElementsAre(2, int8_row_bytes(288)));
  const auto back = from_int8(*coded, spec_of(native));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->shape, native.shape);
  ASSERT_EQ(back->data.size(), native.data.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::uint16_t other = 0;
    std::memcpy(&other, back->data.bytes().data() + 2 * i, sizeof(other));
    const float a = std::bit_cast<float>(std::uint32_t{bits[i]} << 16U);
    const float b = std::bit_cast<float>(std::uint32_t{other} << 16U);
    EXPECT_LE(std::abs(a - b), i % 97 == 0 ? 20.0F : 900.0F * 4 / 127 / 2 * 1.02F) << i;
  }
}

TEST(Int8RowsTest, AnyCodesAndScalesAreRead) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> bytes(int8_row_bytes(40));
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    for (const ElementType type : {ElementType::kF32, ElementType::kBF16}) {
      const auto back =
          from_int8({"hidden", ElementType::kI8, {1, bytes.size()}, SharedBytes::copy_of(bytes)},
                    {"hidden", type, {40}});
      ASSERT_TRUE(back) << back.error().message();
      EXPECT_EQ(back->data.size(), 40 * size_bytes(type));
    }
  }
}

void expect_refused(const Result<Tensor>& result, ErrorCode code, const char* message) {
  ASSERT_FALSE(result) << message;
  EXPECT_EQ(result.error().code(), code);
  EXPECT_THAT(result.error().message(), HasSubstr(message));
}

TEST(Int8RowsTest, SizesThatDisagreeAreRefused) {
  const BoundarySpec spec = {"hidden", ElementType::kF32, {40}};
  const Tensor good = to_int8(f32_rows(activations(80, 1), 2)).value();
  ASSERT_TRUE(from_int8(good, spec));
  const auto changed = [&](auto change) {
    Tensor tensor = good;
    change(tensor);
    return from_int8(tensor, spec);
  };
  constexpr auto kBad = ErrorCode::kInvalidArgument;
  expect_refused(changed([](Tensor& t) { t.type = ElementType::kU8; }), kBad, "is of type u8");
  expect_refused(changed([](Tensor& t) {
                   t.shape = {2, 40};
                 }),
                 kBad, "shape [2, 40], i8 and [rows, 44] are expected");
  expect_refused(changed([](Tensor& t) { t.shape = {88}; }), kBad, "shape [88]");
  expect_refused(changed([](Tensor& t) { t.shape = {}; }), kBad, "shape []");
  expect_refused(changed([](Tensor& t) { t.shape[0] = 3; }), kBad, "88 bytes for shape [3, 44]");
  expect_refused(changed([](Tensor& t) { t.shape[0] = UINT64_MAX / 44 + 1; }),
                 ErrorCode::kResourceExhausted, "at most");
  expect_refused(changed([](Tensor& t) { t.shape[0] = (1U << 30U) / 160 + 1; }),
                 ErrorCode::kResourceExhausted, "rows of 160 bytes");
  constexpr auto kNone = ErrorCode::kUnimplemented;
  expect_refused(from_int8(good, {"hidden", ElementType::kI64, {40}}), kNone, "no code in 8 bits");
  expect_refused(from_int8(good, {"hidden", ElementType::kF32, {40, 0}}), kNone,
                 "no code in 8 bits");
  expect_refused(from_int8(good, {"hidden", ElementType::kF32, {UINT64_MAX, 3}}), kNone, "no code");
  Tensor native = f32_rows({1, 2}, 1);
  native.shape = {1, 3};
  expect_refused(to_int8(native), kBad, "8 bytes for shape [1, 3]");
  native.type = ElementType::kF16;
  expect_refused(to_int8(native), kNone, "of type f16: int8 links have f32 and bf16");
}

TEST(Int8RowsTest, CodingIsFastBesideAnyLink) {
  const std::uint64_t rows = 512;
  const Tensor native = f32_rows(activations(rows * 4096, 2), rows);
  double seconds = 1;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const auto back = from_int8(to_int8(native).value(), spec_of(native));
    ASSERT_TRUE(back);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds = std::min(seconds, took.count());
  }
  const double rate = static_cast<double>(native.data.size()) / seconds / 1e9;
  RecordProperty("gigabytes_per_second", fmt::format("{:.2f}", rate));
  // There and back. Also a slow build on a busy machine is beyond a link of 400 Mbit/s.
  EXPECT_GT(rate, 0.05);
}

}  // namespace
}  // namespace paceline::wire
