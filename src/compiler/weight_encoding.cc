#include "compiler/weight_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "compiler/kept_blocks.h"
#include "model/half.h"
#include "model/quantized_block.h"

namespace paceline::compiler {
namespace {

using model::TensorType;

ov::element::Type kept_type(TensorType source) {
  switch (source) {
    case TensorType::kF32:
      return ov::element::f32;
    case TensorType::kF16:
    case TensorType::kF8_E4M3:
      return ov::element::f16;
    case TensorType::kBF16:
      return ov::element::bf16;
    case TensorType::kQ4_0:
    case TensorType::kQ3_K:
      return ov::element::i4;
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
    case TensorType::kQ2_K:
      return ov::element::u4;
    case TensorType::kQ5_1:
    case TensorType::kQ5_K:
      return ov::element::u8;
    default:
      return ov::element::i8;
  }
}

void keep(WeightEncoding& encoding) {
  encoding.type = kept_type(encoding.source);
  if (!model::is_quantized(encoding.source)) return;
  encoding.group = model::group_elements(encoding.source);
  if (model::has_offsets(encoding.source)) encoding.zero_points = ZeroPoints::kHalf;
}

void quantize_by_row(WeightEncoding& encoding) {
  encoding.type = ov::element::i8;
  encoding.group = encoding.columns;
  encoding.quantized = QuantOptions{QuantKind::kInt8, encoding.columns, false};
}

void quantize_by_group(WeightEncoding& encoding, WeightKind kind, const WeightOptions& options) {
  encoding.group = group_for(encoding.columns, options.group);
  if (encoding.group == 0) return quantize_by_row(encoding);
  const bool is_symmetric = kind == WeightKind::kInt4;
  encoding.type = is_symmetric ? ov::element::i4 : ov::element::u4;
  encoding.zero_points = is_symmetric ? ZeroPoints::kNone : ZeroPoints::kNibble;
  encoding.quantized = QuantOptions{is_symmetric ? QuantKind::kInt4 : QuantKind::kInt4Asymmetric,
                                    static_cast<std::size_t>(encoding.group), options.search};
}

/// Rows and columns. Elements of a vector are its rows unless they are stored in blocks.
void set_shape(const PlannedTensor& tensor, WeightEncoding& encoding) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dimension : tensor.shape) elements *= dimension;
  const bool is_vector = tensor.shape.size() == 1;
  encoding.columns = is_vector && !model::is_quantized(encoding.source) ? 1 : tensor.shape.back();
  encoding.rows = elements / encoding.columns;
  if (tensor.shape.size() == 3) encoding.experts = tensor.shape[0];
}

EncodeStatus encode_plain(const WeightEncoding& encoding, std::span<const float> rows,
                          std::span<std::byte> result, RowFacts& facts) {
  double squares = 0.0;
  double errors = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!std::isfinite(rows[i])) return EncodeStatus::kNotFinite;
    float stored = rows[i];
    if (encoding.type == ov::element::f32) {
      std::memcpy(result.data() + i * sizeof(float), &stored, sizeof(float));
    } else {
      const bool is_half = encoding.type == ov::element::f16;
      const std::uint16_t bits =
          is_half ? model::float_to_half(rows[i]) : model::float_to_bfloat(rows[i]);
      std::memcpy(result.data() + i * sizeof(bits), &bits, sizeof(bits));
      stored = is_half ? model::half_to_float(bits) : model::bfloat_to_float(bits);
      if (!std::isfinite(stored)) return EncodeStatus::kTooLarge;
    }
    const double error = static_cast<double>(stored) - rows[i];
    squares += static_cast<double>(rows[i]) * rows[i];
    errors += error * error;
    facts.errors.largest_value = std::max(facts.errors.largest_value, std::abs(rows[i]));
    facts.errors.largest_error =
        std::max(facts.errors.largest_error, static_cast<float>(std::abs(error)));
  }
  // Roundings of a float are relative to each value, so weights would change nothing.
  facts.errors.squares += squares;
  facts.errors.weighted_squares += squares;
  facts.errors.error_squares += errors;
  facts.errors.weighted_error_squares += errors;
  return EncodeStatus::kDone;
}

ov::Shape with_rows(const WeightEncoding& encoding, const ov::Shape& row) {
  ov::Shape shape;
  if (encoding.experts != 0) shape.push_back(encoding.experts);
  shape.push_back(encoding.rows / std::max<std::uint64_t>(encoding.experts, 1));
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

float quant_at(const WeightEncoding& encoding, const std::byte* values, std::size_t index) {
  if (encoding.type == ov::element::u8) return std::to_integer<std::uint8_t>(values[index]);
  if (encoding.type == ov::element::i8) return std::to_integer<std::int8_t>(values[index]);
  const int pair = std::to_integer<int>(values[index / 2]);
  const int nibble = index % 2 == 0 ? pair & 15 : pair >> 4;
  const bool is_negative = encoding.type == ov::element::i4 && nibble > 7;
  return static_cast<float>(is_negative ? nibble - 16 : nibble);
}

float plain_at(const WeightEncoding& encoding, const std::byte* values, std::size_t index) {
  if (encoding.type == ov::element::f32) {
    float value = 0;
    std::memcpy(&value, values + index * sizeof(value), sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, values + index * sizeof(bits), sizeof(bits));
  return encoding.type == ov::element::f16 ? model::half_to_float(bits)
                                           : model::bfloat_to_float(bits);
}

}  // namespace

bool WeightEncoding::is_kept() const {
  return !quantized && type == kept_type(source) && source != TensorType::kF8_E4M3;
}

ov::Shape WeightEncoding::values_shape() const {
  if (group == 0 || is_by_row()) return with_rows(*this, {columns});
  return with_rows(*this, {groups(), group});
}

ov::Shape WeightEncoding::scales_shape() const {
  if (is_by_row()) return with_rows(*this, {1});
  return with_rows(*this, {groups(), 1});
}

ov::element::Type WeightEncoding::zero_point_type() const {
  return zero_points == ZeroPoints::kNibble ? ov::element::u4 : ov::element::f16;
}

std::uint64_t WeightEncoding::row_bytes() const { return columns * type.bitwidth() / 8; }

std::uint64_t WeightEncoding::zero_point_bytes() const {
  if (zero_points == ZeroPoints::kNone) return 0;
  return zero_points == ZeroPoints::kHalf ? scale_bytes() : (rows * groups() + 1) / 2;
}

WeightEncoding choose_encoding(const PlannedTensor& tensor, WeightKind kind,
                               const WeightOptions& options) {
  PACELINE_CHECK(!tensor.pieces.empty() && !tensor.shape.empty() && tensor.shape.size() <= 3);
  WeightEncoding encoding;
  encoding.source = tensor.pieces[0].source->type;
  set_shape(tensor, encoding);
  switch (kind) {
    case WeightKind::kKeep:
      keep(encoding);
      break;
    case WeightKind::kF32:
      break;
    case WeightKind::kF16:
      encoding.type = ov::element::f16;
      break;
    case WeightKind::kBF16:
      encoding.type = ov::element::bf16;
      break;
    case WeightKind::kInt8:
      quantize_by_row(encoding);
      break;
    case WeightKind::kInt4:
    case WeightKind::kInt4Asymmetric:
      quantize_by_group(encoding, kind, options);
      break;
  }
  return encoding;
}

WeightEncoding as_f32(WeightEncoding encoding) {
  encoding.type = ov::element::f32;
  encoding.group = 0;
  encoding.zero_points = ZeroPoints::kNone;
  encoding.quantized.reset();
  return encoding;
}

void RowFacts::add(const RowFacts& other) {
  errors.add(other.errors);
  largest_scale = std::max(largest_scale, other.largest_scale);
  largest_offset = std::max(largest_offset, other.largest_offset);
}

EncodeStatus encode_kept(const WeightEncoding& encoding, std::span<const std::byte> rows,
                         const EncodedRows& result, RowFacts& facts) {
  PACELINE_CHECK(encoding.is_kept());
  if (encoding.group != 0) return repack_blocks(encoding, rows, result, facts);
  PACELINE_CHECK(rows.size() == result.values.size());
  std::memcpy(result.values.data(), rows.data(), rows.size());
  return all_finite(encoding.source, rows) ? EncodeStatus::kDone : EncodeStatus::kNotFinite;
}

EncodeStatus encode_floats(const WeightEncoding& encoding, std::span<const float> rows,
                           const EncodedRows& result, std::vector<std::int8_t>& scratch,
                           RowFacts& facts) {
  if (!encoding.quantized) return encode_plain(encoding, rows, result.values, facts);
  const bool is_packed = encoding.type.bitwidth() == 4;
  std::span<std::int8_t> quants(reinterpret_cast<std::int8_t*>(result.values.data()),
                                result.values.size());
  if (is_packed) {
    scratch.resize(rows.size());
    quants = scratch;
  }
  const QuantStatus status =
      quantize(rows, *encoding.quantized, {quants, result.scales, result.nibbles}, facts.errors);
  if (status == QuantStatus::kNotFinite) return EncodeStatus::kNotFinite;
  if (status == QuantStatus::kTooLarge) return EncodeStatus::kTooLarge;
  if (is_packed) pack_nibbles(quants, result.values.data());
  return EncodeStatus::kDone;
}

void decode_rows(const WeightEncoding& encoding, const EncodedRows& rows, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (encoding.group == 0) {
      values[i] = plain_at(encoding, rows.values.data(), i);
      continue;
    }
    const std::size_t group = i / encoding.group;
    float zero_point = 0.0F;
    if (!rows.half_points.empty()) zero_point = model::half_to_float(rows.half_points[group]);
    if (!rows.nibbles.empty()) zero_point = rows.nibbles[group];
    values[i] = (quant_at(encoding, rows.values.data(), i) - zero_point) *
                model::half_to_float(rows.scales[group]);
  }
}

}  // namespace paceline::compiler
