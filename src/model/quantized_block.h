// One block of a ggml type taken apart into small integers and the numbers that scale them.
//
// Both users stand on it: dequantize.h (the reference in f32) and the compiler, which packs the
// integers anew. The layouts are those of ggml's block structures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/tensor_source.h"

namespace paceline::model {

/// value[i] = scale[i / group] * quant[i] + offset[i / group], group = group_elements(type).
struct UnpackedBlock {
  std::array<std::int8_t, 256> quants;
  std::array<float, 16> scales;
  std::array<float, 16> offsets;
};

/// True for the types that are stored in blocks of quants.
bool is_quantized(TensorType type);
/// Elements that share one scale: 32, or 16 of Q2_K, Q3_K and Q6_K. Only for quantized types.
std::size_t group_elements(TensorType type);
/// True where offsets are not all 0.
bool has_offsets(TensorType type);

/// Takes one block of `type` (block_bytes(type) bytes, quantized types only) apart. Quants are
/// -8..7 of Q4_0, -16..15 of Q5_0, 0..15 of Q4_1 and Q4_K, 0..31 of Q5_1 and Q5_K, 0..3 of Q2_K,
/// -4..3 of Q3_K, -32..31 of Q6_K, -127..113 (16 values) of IQ4_NL and IQ4_XS, and -128..127 of
/// Q8_0. Scales and offsets are the file's: they may be infinite or NaN.
void unpack_block(TensorType type, std::span<const std::byte> block, UnpackedBlock& result);
/// The same for the scales and offsets alone; the quants are left as they were.
void unpack_scales(TensorType type, std::span<const std::byte> block, UnpackedBlock& result);

}  // namespace paceline::model
