#include "compiler/weight_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/dequantize.h"
#include "model/foreign_text.h"
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
      return 128.0F;
    case TensorType::kQ6_K:
      return 32.0F;
    case TensorType::kQ4_0:
      return 8.0F;
    default:
      return 15.0F;
  }
}

/// True where a group's scale is a product and so no f16 by itself.
bool has_derived_scales(TensorType type) {
  return type == TensorType::kQ4_K || type == TensorType::kQ6_K;
}

/// The extremes of a tensor's groups.
struct Extremes {
  bool finite = true;
  float scale = 0.0F;
  float offset = 0.0F;
};

Extremes find_extremes(TensorType type, std::span<const std::byte> bytes) {
  const std::size_t step = model::block_bytes(type);
  const std::size_t groups = model::block_elements(type) / model::group_elements(type);
  Extremes extremes;
  UnpackedBlock block;
  for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
    model::unpack_scales(type, bytes.subspan(begin, step), block);
    for (std::size_t group = 0; group < groups; ++group) {
      const float scale = std::abs(block.scales[group]);
      const float offset = std::abs(block.offsets[group]);
      extremes.finite = extremes.finite && std::isfinite(scale) && std::isfinite(offset);
      extremes.scale = std::max(extremes.scale, scale);
      extremes.offset = std::max(extremes.offset, offset);
    }
  }
  return extremes;
}

/// True where f16 scales and zero points keep the bound of the header.
bool fits_half(TensorType type, const Extremes& extremes) {
  if (extremes.scale > kHalfMax || extremes.offset > kHalfMax / 2) return false;
  const float range = std::max(extremes.scale * largest_quant(type), extremes.offset);
  return !has_derived_scales(type) || range == 0.0F || range >= kSmallestRange;
}

struct GroupCode {
  std::uint16_t scale = 0;
  std::uint16_t zero_point = 0;
  bool is_constant = false;  ///< all quants must be 0
};

/// scale * quant + offset, quant in 0..15, as code.scale * (quant - code.zero_point). What rounding
/// takes from the scale is made up in the middle of the range, so that it is at most 7.5 steps off.
/// Groups whose values hardly differ (zero point beyond an f16) become constants: the deviation is
/// then at most 7.5 / 65504 of the value.
GroupCode encode_group(float scale, float offset) {
  constexpr float kMiddle = 7.5F;
  GroupCode code;
  code.scale = model::float_to_half(scale);
  const float rounded = model::half_to_float(code.scale);
  const float zero_point = -(offset + (scale - rounded) * kMiddle) / rounded;
  if (rounded != 0.0F && std::abs(zero_point) <= kHalfMax) {
    code.zero_point = model::float_to_half(zero_point);
    return code;
  }
  const float value = offset + scale * kMiddle;
  code.scale = model::float_to_half(std::abs(value));
  code.zero_point = model::float_to_half(value < 0.0F ? 1.0F : -1.0F);
  code.is_constant = true;
  return code;
}

/// Two nibbles a byte, the first element in the low one, as OpenVINO's i4 and u4.
void pack_nibbles(std::span<const std::int8_t> quants, std::byte* result) {
  for (std::size_t i = 0; i < quants.size(); i += 2) {
    result[i / 2] = static_cast<std::byte>((quants[i] & 0xf) | ((quants[i + 1] & 0xf) << 4));
  }
}

void encode_quants(const WeightEncoding& encoding, std::span<const std::int8_t> quants,
                   std::byte* result) {
  if (encoding.type == ov::element::i8) {
    std::memcpy(result, quants.data(), quants.size());
  } else {
    pack_nibbles(quants, result);
  }
}

void encode_quantized_row(const WeightEncoding& encoding, std::span<const std::byte> row,
                          EncodedRow& result) {
  const std::size_t step = model::block_bytes(encoding.source);
  const std::size_t group = encoding.group;
  const std::size_t groups_per_block = model::block_elements(encoding.source) / group;
  const std::size_t group_bytes = encoding.row_bytes() / encoding.groups();
  UnpackedBlock block;
  for (std::size_t index = 0; index < encoding.groups(); ++index) {
    const std::size_t inner = index % groups_per_block;
    if (inner == 0) {
      model::unpack_block(encoding.source, row.subspan(index / groups_per_block * step, step),
                          block);
    }
    const std::span<std::int8_t> quants(block.quants.data() + inner * group, group);
    if (encoding.has_zero_points) {
      const GroupCode code = encode_group(block.scales[inner], block.offsets[inner]);
      if (code.is_constant) std::fill(quants.begin(), quants.end(), std::int8_t{0});
      result.scales[index] = code.scale;
      result.zero_points[index] = code.zero_point;
    } else {
      result.scales[index] = model::float_to_half(block.scales[inner]);
    }
    encode_quants(encoding, quants, result.values.data() + index * group_bytes);
  }
}

template <typename Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent_mask) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + i, sizeof(bits));
    if ((bits & exponent_mask) == exponent_mask) return false;
  }
  return true;
}

}  // namespace

ov::Shape WeightEncoding::values_shape() const {
  if (group == 0) return {rows, columns};
  return {rows, groups(), group};
}

ov::Shape WeightEncoding::scales_shape() const { return {rows, groups(), 1}; }

std::uint64_t WeightEncoding::row_bytes() const { return columns * type.bitwidth() / 8; }

Result<WeightEncoding> choose_encoding(const model::TensorInfo& tensor,
                                       std::span<const std::byte> bytes) {
  PACELINE_CHECK(tensor.shape.size() == 1 || tensor.shape.size() == 2);
  WeightEncoding encoding;
  encoding.source = tensor.type;
  encoding.rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  encoding.columns = tensor.shape.back();
  if (tensor.type == TensorType::kF16) encoding.type = ov::element::f16;
  if (tensor.type == TensorType::kBF16) encoding.type = ov::element::bf16;
  if (!model::is_quantized(tensor.type)) return encoding;

  const Extremes extremes = find_extremes(tensor.type, bytes);
  if (!extremes.finite) {
    return fail(ErrorCode::kDataLoss, "tensor {}: has a scale that is not finite",
                model::in_quotes(tensor.name));
  }
  if (!fits_half(tensor.type, extremes)) return encoding;
  encoding.group = model::group_elements(tensor.type);
  encoding.has_zero_points = model::has_offsets(tensor.type);
  encoding.type = ov::element::i8;
  if (tensor.type == TensorType::kQ4_0) encoding.type = ov::element::i4;
  if (encoding.has_zero_points) encoding.type = ov::element::u4;
  return encoding;
}

bool encode_row(const WeightEncoding& encoding, std::span<const std::byte> row, EncodedRow result) {
  PACELINE_CHECK(result.values.size() == encoding.row_bytes());
  PACELINE_CHECK(result.scales.size() == encoding.groups());
  if (encoding.group != 0) {
    encode_quantized_row(encoding, row, result);
    return true;
  }
  if (encoding.type != ov::element::f32) {
    std::memcpy(result.values.data(), row.data(), row.size());
    return all_finite<std::uint16_t>(row, encoding.type == ov::element::f16 ? 0x7c00 : 0x7f80);
  }
  const std::span<float> values(reinterpret_cast<float*>(result.values.data()), encoding.columns);
  model::dequantize(encoding.source, row, values);
  return all_finite<std::uint32_t>(result.values, 0x7f800000U);
}

}  // namespace paceline::compiler
