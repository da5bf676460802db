#include "compiler/kept_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/half.h"
#include "model/quantized_block.h"

namespace paceline::compiler {
namespace {

using model::TensorType;
using model::UnpackedBlock;

constexpr float kHalfMax = 65504.0F;
/// Below this largest value, the steps of a subnormal f16 scale would show: 32 * 2^-25 / 2^-9 is
/// 5e-4 of it.
constexpr float kSmallestRange = 0x1p-9F;

/// The largest |quant|, which times the scale is the largest weight.
float largest_quant(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return 128.0F;
    case TensorType::kQ6_K:
      return 32.0F;
    case TensorType::kQ5_1:
    case TensorType::kQ5_K:
      return 31.0F;
    case TensorType::kQ5_0:
      return 16.0F;
    case TensorType::kQ4_0:
      return 8.0F;
    case TensorType::kQ3_K:
      return 4.0F;
    case TensorType::kQ2_K:
      return 3.0F;
    default:
      return 15.0F;
  }
}

/// True where a group's scale is a product and so no f16 by itself.
bool has_derived_scales(TensorType type) { return model::block_elements(type) == 256; }

struct GroupCode {
  std::uint16_t scale = 0;
  std::uint16_t zero_point = 0;
  bool is_constant = false;  ///< all quants must be 0
};

/// scale * quant + offset, quant in 0..2 * middle, as code.scale * (quant - code.zero_point). What
/// rounding takes from the scale is made up in the middle of the range, so that it is at most
/// `middle` steps off. Groups whose values hardly differ (zero point beyond an f16) become
/// constants: the deviation is then at most middle / 65504 of the value.
GroupCode encode_group(float scale, float offset, float middle) {
  GroupCode code;
  code.scale = model::float_to_half(scale);
  const float rounded = model::half_to_float(code.scale);
  const float zero_point = -(offset + (scale - rounded) * middle) / rounded;
  if (rounded != 0.0F && std::abs(zero_point) <= kHalfMax) {
    code.zero_point = model::float_to_half(zero_point);
    return code;
  }
  const float value = offset + scale * middle;
  code.scale = model::float_to_half(std::abs(value));
  code.zero_point = model::float_to_half(value < 0.0F ? 1.0F : -1.0F);
  code.is_constant = true;
  return code;
}

void store_quants(const WeightEncoding& encoding, std::span<const std::int8_t> quants,
                  std::byte* result) {
  if (encoding.type.bitwidth() == 8) {
    std::memcpy(result, quants.data(), quants.size());
  } else {
    pack_nibbles(quants, result);
  }
}

/// One group of an unpacked block, the one of number `index` of the rows.
void repack_group(const WeightEncoding& encoding, UnpackedBlock& block, std::size_t inner,
                  std::size_t index, const EncodedRows& result) {
  const std::size_t group = encoding.group;
  const std::size_t group_bytes = group * encoding.type.bitwidth() / 8;
  const std::span<std::int8_t> quants(block.quants.data() + inner * group, group);
  if (encoding.zero_points == ZeroPoints::kHalf) {
    const float middle = largest_quant(encoding.source) / 2.0F;
    const GroupCode code = encode_group(block.scales[inner], block.offsets[inner], middle);
    result.scales[index] = code.scale;
    result.half_points[index] = code.zero_point;
    if (code.is_constant) std::fill(quants.begin(), quants.end(), std::int8_t{0});
  } else {
    result.scales[index] = model::float_to_half(block.scales[inner]);
  }
  store_quants(encoding, quants, result.values.data() + index * group_bytes);
}

template <typename Bits>
bool exponents_below(std::span<const std::byte> elements, Bits mask) {
  bool finite = true;
  for (std::size_t i = 0; i < elements.size(); i += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, elements.data() + i, sizeof(bits));
    finite = finite && (bits & mask) != mask;
  }
  return finite;
}

}  // namespace

EncodeStatus repack_blocks(const WeightEncoding& encoding, std::span<const std::byte> rows,
                           const EncodedRows& result, RowFacts& facts) {
  const std::size_t step = model::block_bytes(encoding.source);
  const std::size_t groups = model::block_elements(encoding.source) / encoding.group;
  PACELINE_CHECK(result.scales.size() * step == rows.size() * groups);
  UnpackedBlock block;
  for (std::size_t i = 0; i * step < rows.size(); ++i) {
    model::unpack_block(encoding.source, rows.subspan(i * step, step), block);
    for (std::size_t inner = 0; inner < groups; ++inner) {
      const float scale = std::abs(block.scales[inner]);
      const float offset = std::abs(block.offsets[inner]);
      if (!std::isfinite(scale) || !std::isfinite(offset)) return EncodeStatus::kScaleNotFinite;
      facts.largest_scale = std::max(facts.largest_scale, scale);
      facts.largest_offset = std::max(facts.largest_offset, offset);
      repack_group(encoding, block, inner, i * groups + inner, result);
    }
  }
  return EncodeStatus::kDone;
}

bool scales_fit(const WeightEncoding& encoding, const RowFacts& facts) {
  if (encoding.quantized || encoding.group == 0) return true;
  if (facts.largest_scale > kHalfMax || facts.largest_offset > kHalfMax / 2) return false;
  const float range =
      std::max(facts.largest_scale * largest_quant(encoding.source), facts.largest_offset);
  return !has_derived_scales(encoding.source) || range == 0.0F || range >= kSmallestRange;
}

bool all_finite(model::TensorType type, std::span<const std::byte> elements) {
  if (type == TensorType::kF32) return exponents_below<std::uint32_t>(elements, 0x7f800000U);
  return exponents_below<std::uint16_t>(elements, type == TensorType::kF16 ? 0x7c00 : 0x7f80);
}

}  // namespace paceline::compiler
