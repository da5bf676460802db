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

/// The value of each nibble of IQ4_NL and IQ4_XS.
constexpr std::array<std::int8_t, 16> kCurve = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

/// Low nibbles are elements 0..15, high ones 16..31.
void unpack_nibbles(const std::byte* nibbles, int bias, std::int8_t* quants) {
  for (std::size_t i = 0; i < 16; ++i) {
    quants[i] = small((byte_at(nibbles, i) & 0xf) - bias);
    quants[i + 16] = small((byte_at(nibbles, i) >> 4) - bias);
  }
}

/// The same, each an index into the curve.
void unpack_curve(const std::byte* nibbles, std::int8_t* quants) {
  for (std::size_t i = 0; i < 16; ++i) {
    quants[i] = kCurve[byte_at(nibbles, i) & 0xf];
    quants[i + 16] = kCurve[byte_at(nibbles, i) >> 4];
  }
}

/// 4 bytes with the fifth bit of each element, then 16 of nibbles.
void unpack_five_bits(const std::byte* packed, int bias, std::int8_t* quants) {
  std::uint32_t high = 0;
  std::memcpy(&high, packed, sizeof(high));
  unpack_nibbles(packed + 4, 0, quants);
  for (std::size_t i = 0; i < 32; ++i) {
    quants[i] = small((quants[i] | static_cast<int>((high >> i & 1U) << 4)) - bias);
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

/// The six-bit scale and minimum of group `j` out of the 12 bytes that pack eight of each: the
/// first four lie in the low bits of bytes 0..7, the others in bytes 8..11 and the high bits of
/// 0..7.
ScaleAndMinimum six_bit_pair(const std::byte* packed, std::size_t j) {
  if (j < 4) return {byte_at(packed, j) & 63, byte_at(packed, j + 4) & 63};
  return {(byte_at(packed, j + 4) & 0xf) | ((byte_at(packed, j - 4) >> 6) << 4),
          (byte_at(packed, j + 4) >> 4) | ((byte_at(packed, j) >> 6) << 4)};
}

/// Q4_K and Q5_K: d, dmin (f16), 12 bytes of scales: value = d*scale*quant - dmin*minimum.
void unpack_six_bit_pairs(const std::byte* block, UnpackedBlock& result) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (std::size_t group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = six_bit_pair(block + 4, group);
    result.scales[group] = scale * static_cast<float>(packed.scale);
    result.offsets[group] = -(minimum * static_cast<float>(packed.minimum));
  }
}

/// Each 32 bytes of nibbles hold two groups: the low nibbles, then the high ones.
void unpack_q4_k(const std::byte* nibbles, std::int8_t* quants) {
  for (std::size_t i = 0; i < 256; ++i) {
    const std::uint8_t pair = byte_at(nibbles, i / 64 * 32 + i % 32);
    quants[i] = small(i % 64 < 32 ? pair & 0xf : pair >> 4);
  }
}

/// 32 bytes whose bit g is the fifth bit of group g, then the nibbles of Q4_K.
void unpack_q5_k(const std::byte* packed, std::int8_t* quants) {
  unpack_q4_k(packed + 32, quants);
  for (std::size_t i = 0; i < 256; ++i) {
    quants[i] = small(quants[i] | ((byte_at(packed, i % 32) >> (i / 32) & 1) << 4));
  }
}

/// Pairs of bits of Q2_K and Q3_K: each 32 bytes hold four runs of 32 elements, run r in the bits
/// 2r and 2r + 1.
int bit_pair(const std::byte* packed, std::size_t i) {
  return byte_at(packed, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}

/// 16 bytes with scale (low nibble) and minimum of each group, 64 of quants, d, dmin (f16).
void unpack_q2_k_scales(const std::byte* block, UnpackedBlock& result) {
  const float scale = half_at(block + 80);
  const float minimum = half_at(block + 82);
  for (std::size_t group = 0; group < 16; ++group) {
    const std::uint8_t packed = byte_at(block, group);
    result.scales[group] = scale * static_cast<float>(packed & 0xf);
    result.offsets[group] = -(minimum * static_cast<float>(packed >> 4));
  }
}

/// 32 bytes of high bits, 64 of low pairs, 12 of scales, d (f16). The 16 scales have six bits: low
/// ones in the nibbles of bytes 0..7 (the low nibbles first), high ones in bytes 8..11, where those
/// of groups j, j + 4, j + 8, j + 12 share a byte.
void unpack_q3_k_scales(const std::byte* block, UnpackedBlock& result) {
  const std::byte* packed = block + 96;
  const float scale = half_at(block + 108);
  for (std::size_t group = 0; group < 16; ++group) {
    const int low = byte_at(packed, group % 8) >> (group / 8 * 4) & 0xf;
    const int high = byte_at(packed, 8 + group % 4) >> (group / 4 * 2) & 3;
    result.scales[group] = scale * static_cast<float>((low | (high << 4)) - 32);
    result.offsets[group] = 0.0F;
  }
}

/// The high bit of element i is bit i / 32 of byte i % 32; where it is not set, 4 is taken away.
void unpack_q3_k(const std::byte* block, std::int8_t* quants) {
  for (std::size_t i = 0; i < 256; ++i) {
    const int high = byte_at(block, i % 32) >> (i / 32) & 1;
    quants[i] = small(bit_pair(block + 32, i) + high * 4 - 4);
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
void unpack_q6_k(const std::byte* block, std::int8_t* quants) {
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t run = i % 128 / 32;
    const int low = byte_at(block, i / 128 * 64 + run % 2 * 32 + i % 32) >> (run / 2 * 4);
    quants[i] = small(((low & 0xf) | (bit_pair(block + 128, i) << 4)) - 32);
  }
}

/// d (f16), the high bit pairs of eight scales (u16), 4 bytes of their low nibbles, 8 groups of
/// nibbles: value = d*(scale - 32)*curve[nibble].
void unpack_iq4_xs_scales(const std::byte* block, UnpackedBlock& result) {
  const float scale = half_at(block);
  for (std::size_t group = 0; group < 8; ++group) {
    const int low = byte_at(block, 4 + group / 2) >> (group % 2 * 4) & 0xf;
    const int high = byte_at(block, 2 + group / 4) >> (group % 4 * 2) & 3;
    result.scales[group] = scale * static_cast<float>((low | (high << 4)) - 32);
    result.offsets[group] = 0.0F;
  }
}

void unpack_large_block(TensorType type, const std::byte* block, std::int8_t* quants) {
  switch (type) {
    case TensorType::kQ2_K:
      for (std::size_t i = 0; i < 256; ++i) quants[i] = small(bit_pair(block + 16, i));
      break;
    case TensorType::kQ3_K:
      return unpack_q3_k(block, quants);
    case TensorType::kQ4_K:
      return unpack_q4_k(block + 16, quants);
    case TensorType::kQ5_K:
      return unpack_q5_k(block + 16, quants);
    case TensorType::kQ6_K:
      return unpack_q6_k(block, quants);
    default:
      for (std::size_t group = 0; group < 8; ++group) {
        unpack_curve(block + 8 + 16 * group, quants + 32 * group);
      }
  }
}

/// Blocks of 32: d (f16), a minimum m (f16) of Q4_1 and Q5_1, quants.
void unpack_small_block(TensorType type, const std::byte* block, std::int8_t* quants) {
  switch (type) {
    case TensorType::kQ8_0:
      std::memcpy(quants, block + 2, 32);
      break;
    case TensorType::kQ4_0:
      return unpack_nibbles(block + 2, 8, quants);
    case TensorType::kQ4_1:
      return unpack_nibbles(block + 4, 0, quants);
    case TensorType::kQ5_0:
      return unpack_five_bits(block + 2, 16, quants);
    case TensorType::kQ5_1:
      return unpack_five_bits(block + 4, 0, quants);
    default:
      return unpack_curve(block + 2, quants);
  }
}

}  // namespace

bool is_quantized(TensorType type) { return block_elements(type) > 1; }

std::size_t group_elements(TensorType type) {
  const bool by_sixteen =
      type == TensorType::kQ2_K || type == TensorType::kQ3_K || type == TensorType::kQ6_K;
  return by_sixteen ? 16 : 32;
}

bool has_offsets(TensorType type) {
  return type == TensorType::kQ4_1 || type == TensorType::kQ5_1 || type == TensorType::kQ2_K ||
         type == TensorType::kQ4_K || type == TensorType::kQ5_K;
}

void unpack_scales(TensorType type, std::span<const std::byte> block, UnpackedBlock& result) {
  PACELINE_CHECK(is_quantized(type) && block.size() == block_bytes(type));
  const std::byte* data = block.data();
  switch (type) {
    case TensorType::kQ2_K:
      return unpack_q2_k_scales(data, result);
    case TensorType::kQ3_K:
      return unpack_q3_k_scales(data, result);
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return unpack_six_bit_pairs(data, result);
    case TensorType::kQ6_K:
      return unpack_q6_k_scales(data, result);
    case TensorType::kIQ4_XS:
      return unpack_iq4_xs_scales(data, result);
    default:
      result.scales[0] = half_at(data);
      result.offsets[0] = has_offsets(type) ? half_at(data + 2) : 0.0F;
  }
}

void unpack_block(TensorType type, std::span<const std::byte> block, UnpackedBlock& result) {
  unpack_scales(type, block, result);
  if (block_elements(type) == 32) {
    unpack_small_block(type, block.data(), result.quants.data());
  } else {
    unpack_large_block(type, block.data(), result.quants.data());
  }
}

}  // namespace paceline::model
