#include "model/dequantize.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "model/half.h"
#include "model/quantized_block.h"

namespace paceline::model {
namespace {

/// Random numbers and the bytes of a block that holds them, packed by the format's definition.
class Packer {
 public:
  explicit Packer(std::uint32_t seed) : random_(seed) {}

  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  /// A number that an f16 holds exactly.
  float half() { return static_cast<float>(integer(-1024, 1024)) / 512.0F; }

  void put(int value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void put_half(float value) {
    const std::uint16_t bits = float_to_half(value);
    put(bits & 0xff);
    put(bits >> 8);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::byte& at(std::size_t index) { return bytes_[index]; }

 private:
  std::mt19937 random_;
  std::vector<std::byte> bytes_;
};

std::vector<float> dequantized(TensorType type, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / block_bytes(type) * block_elements(type));
  dequantize(type, bytes, values);
  return values;
}

TEST(DequantizeTest, Q8_0IsScaleTimesByte) {
  Packer packer(1);
  std::vector<float> expected;
  for (int block = 0; block < 3; ++block) {
    const float d = packer.half();
    packer.put_half(d);
    for (int i = 0; i < 32; ++i) {
      const int q = packer.integer(-128, 127);
      packer.put(q);
      expected.push_back(d * static_cast<float>(q));
    }
  }
  EXPECT_EQ(dequantized(TensorType::kQ8_0, packer.bytes()), expected);
}

/// Sixteen bytes: element i in the low nibble of byte i, element i + 16 in the high one.
void put_nibbles(Packer& packer, const std::vector<int>& quants) {
  for (std::size_t i = 0; i < 16; ++i) packer.put(quants[i] | (quants[i + 16] << 4));
}

TEST(DequantizeTest, Q4_0AndQ4_1AreNibblesOfTwoHalves) {
  for (const bool with_minimum : {false, true}) {
    Packer packer(2);
    std::vector<float> expected;
    for (int block = 0; block < 3; ++block) {
      const float d = packer.half();
      const float m = packer.half();
      packer.put_half(d);
      if (with_minimum) packer.put_half(m);
      std::vector<int> quants;
      for (int i = 0; i < 32; ++i) quants.push_back(packer.integer(0, 15));
      put_nibbles(packer, quants);
      for (const int q : quants) {
        expected.push_back(with_minimum ? d * static_cast<float>(q) + m
                                        : d * static_cast<float>(q - 8));
      }
    }
    const TensorType type = with_minimum ? TensorType::kQ4_1 : TensorType::kQ4_0;
    EXPECT_EQ(dequantized(type, packer.bytes()), expected);
  }
}

TEST(DequantizeTest, Q4_KHasSixBitScalesAndMinimums) {
  Packer packer(3);
  const float d = packer.half();
  const float dmin = packer.half();
  std::vector<int> scales;
  std::vector<int> minimums;
  for (int group = 0; group < 8; ++group) {
    scales.push_back(packer.integer(0, 63));
    minimums.push_back(packer.integer(0, 63));
  }
  packer.put_half(d);
  packer.put_half(dmin);
  for (std::size_t j = 0; j < 4; ++j) packer.put(scales[j] | ((scales[j + 4] >> 4) << 6));
  for (std::size_t j = 0; j < 4; ++j) packer.put(minimums[j] | ((minimums[j + 4] >> 4) << 6));
  for (std::size_t j = 4; j < 8; ++j) packer.put((scales[j] & 15) | ((minimums[j] & 15) << 4));
  std::vector<float> expected(256);
  for (std::size_t pair = 0; pair < 4; ++pair) {
    for (std::size_t i = 0; i < 32; ++i) {
      const int low = packer.integer(0, 15);
      const int high = packer.integer(0, 15);
      packer.put(low | (high << 4));
      const auto value = [&](std::size_t group, int q) {
        return d * static_cast<float>(scales[group] * q) -
               dmin * static_cast<float>(minimums[group]);
      };
      expected[pair * 64 + i] = value(pair * 2, low);
      expected[pair * 64 + 32 + i] = value(pair * 2 + 1, high);
    }
  }
  EXPECT_EQ(dequantized(TensorType::kQ4_K, packer.bytes()), expected);
}

TEST(DequantizeTest, Q6_KHasFourLowBitsAndTwoHighOnes) {
  Packer packer(4);
  std::vector<int> quants;
  std::vector<int> scales;
  for (int i = 0; i < 256; ++i) quants.push_back(packer.integer(0, 63));
  for (int i = 0; i < 16; ++i) scales.push_back(packer.integer(-128, 127));
  const auto q = [&](std::size_t half, std::size_t run, std::size_t i) {
    return quants[half * 128 + run * 32 + i];
  };
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t row = 0; row < 2; ++row) {
      for (std::size_t i = 0; i < 32; ++i) {
        packer.put((q(half, row, i) & 15) | ((q(half, row + 2, i) & 15) << 4));
      }
    }
  }
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t i = 0; i < 32; ++i) {
      int bits = 0;
      for (std::size_t run = 0; run < 4; ++run) bits |= (q(half, run, i) >> 4) << (2 * run);
      packer.put(bits);
    }
  }
  for (const int scale : scales) packer.put(scale);
  const float d = 0.25F;
  packer.put_half(d);
  std::vector<float> expected;
  for (std::size_t i = 0; i < 256; ++i) {
    expected.push_back(d * static_cast<float>(scales[i / 16] * (quants[i] - 32)));
  }
  EXPECT_EQ(dequantized(TensorType::kQ6_K, packer.bytes()), expected);
}

TEST(DequantizeTest, PlainTypesAreWidened) {
  Packer packer(5);
  packer.put_half(-1.5F);
  packer.put_half(65504.0F);
  EXPECT_EQ(dequantized(TensorType::kF16, packer.bytes()), (std::vector<float>{-1.5F, 65504.0F}));
  const std::vector<std::byte> bfloat = {std::byte{0x80}, std::byte{0x3f}};
  EXPECT_EQ(dequantized(TensorType::kBF16, bfloat), std::vector<float>{1.0F});
  std::vector<std::byte> plain(8);
  const float values[] = {0.1F, -2.0F};
  std::memcpy(plain.data(), values, 8);
  EXPECT_EQ(dequantized(TensorType::kF32, plain), (std::vector<float>{0.1F, -2.0F}));
}

TEST(DequantizeTest, NoBlocksAreNoValues) {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ4_K}) {
    EXPECT_TRUE(dequantized(type, {}).empty());
  }
}

}  // namespace
}  // namespace paceline::model
