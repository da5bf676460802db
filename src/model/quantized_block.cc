#include "model/quantized_block.h"

#include <cstring>

#include "base/check.h"
#include "model/half.h"

namespace paceline::model {
namespace {

std::uint8_t byte_at(const std::byte* data, std::size_t index) {
  return std::to_integer<std::uint8_t>(data[index]);
}

float half_at(const std::byte* data) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof(bits));
  return half_to_float(bits);
}

std::int8_t small(int value) { return static_cast<std::int8_t>(value); }

/// Q4_0: value = d * (nibble - 8); Q4_1: d * nibble + m. Low nibbles are elements 0..15.
void unpack_nibbles(const std::byte* nibbles, int bias, std::int8_t* quants) {
  for (std::size_t i = 0; i < 16; ++i) {
    quants[i] = small((byte_at(nibbles, i) & 0xf) - bias);
    quants[i + 16] = small((byte_at(nibbles, i) >> 4) - bias);
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

/// The six-bit scale and minimum of group `j` out of the 12 bytes that pack eight of each: the
/// first four lie in the low bits of bytes 0..7, the others in bytes 8..11 and the high bits of
/// 0..7.
ScaleAndMinimum q4_k_group(const std::byte* packed, std::size_t j) {
  if (j < 4) return {byte_at(packed, j) & 63, byte_at(packed, j + 4) & 63};
  return {(byte_at(packed, j + 4) & 0xf) | ((byte_at(packed, j - 4) >> 6) << 4),
          (byte_at(packed, j + 4) >> 4) | ((byte_at(packed, j) >> 6) << 4)};
}

/// d, dmin (f16), 12 bytes of scales, 128 bytes of nibbles: value = d*scale*nibble - dmin*minimum.
void unpack_q4_k_scales(const std::byte* block, UnpackedBlock& result) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (std::size_t group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = q4_k_group(block + 4, group);
    result.scales[group] = scale * static_cast<float>(packed.scale);
    result.offsets[group] = -(minimum * static_cast<float>(packed.minimum));
  }
}

/// Each 32 bytes of nibbles hold two groups: the low nibbles, then the high ones.
void unpack_q4_k_quants(const std::byte* block, std::int8_t* quants) {
  for (std::size_t i = 0; i < 256; ++i) {
    const std::uint8_t pair = byte_at(block, 16 + i / 64 * 32 + i % 32);
    quants[i] = small(i % 64 < 32 ? pair & 0xf : pair >> 4);
  }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 i8 scales, d (f16):
/// value = d*scale*(six bits - 32).
void unpack_q6_k_scales(const std::byte* block, UnpackedBlock& result) {
  const float scale = half_at(block + 208);
  for (std::size_t group = 0; group < 16; ++group) {
    const auto factor = std::to_integer<std::int8_t>(block[192 + group]);
    result.scales[group] = scale * static_cast<float>(factor);
    result.offsets[group] = 0.0F;
  }
}

/// Each half of the block holds four runs of 32 elements: runs 0 and 1 in the low nibbles of its
/// two 32-byte rows, 2 and 3 in the high ones; run r has the bit pair r of the half's 32 high
/// bytes.
void unpack_q6_k_quants(const std::byte* block, std::int8_t* quants) {
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128;
    const std::size_t run = i % 128 / 32;
    const std::size_t column = i % 32;
    const int low = byte_at(block, half * 64 + run % 2 * 32 + column) >> (run / 2 * 4);
    const int high = byte_at(block, 128 + half * 32 + column) >> (run * 2);
    quants[i] = small(((low & 0xf) | ((high & 3) << 4)) - 32);
  }
}

void unpack_quants(TensorType type, const std::byte* block, std::int8_t* quants) {
  switch (type) {
    case TensorType::kQ8_0:
      std::memcpy(quants, block + 2, 32);
      break;
    case TensorType::kQ4_0:
      unpack_nibbles(block + 2, 8, quants);
      break;
    case TensorType::kQ4_1:
      unpack_nibbles(block + 4, 0, quants);
      break;
    case TensorType::kQ4_K:
      unpack_q4_k_quants(block, quants);
      break;
    default:
      unpack_q6_k_quants(block, quants);
      break;
  }
}

}  // namespace

bool is_quantized(TensorType type) { return block_elements(type) > 1; }

std::size_t group_elements(TensorType type) { return type == TensorType::kQ6_K ? 16 : 32; }

void unpack_scales(TensorType type, std::span<const std::byte> block, UnpackedBlock& result) {
  PACELINE_CHECK(is_quantized(type) && block.size() == block_bytes(type));
  const std::byte* data = block.data();
  if (type == TensorType::kQ4_K) return unpack_q4_k_scales(data, result);
  if (type == TensorType::kQ6_K) return unpack_q6_k_scales(data, result);
  result.scales[0] = half_at(data);
  result.offsets[0] = type == TensorType::kQ4_1 ? half_at(data + 2) : 0.0F;
}

void unpack_block(TensorType type, std::span<const std::byte> block, UnpackedBlock& result) {
  unpack_scales(type, block, result);
  unpack_quants(type, block.data(), result.quants.data());
}

}  // namespace paceline::model
