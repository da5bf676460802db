// How a stored tensor becomes constants of an OpenVINO graph: which element types and shapes, and
// the conversion of its rows. Knows no files and builds no nodes.
//
// The forms are those that the CPU plugin fuses into a compressed FullyConnected or Gather. Kept:
//   Q8_0          i8 in groups of 32, the file's own f16 scales                            exact
//   Q5_0, IQ4_NL  i8 likewise: five bits, and the curve's 16 values, fit                   exact
//   Q4_0          i4 in groups of 32, the file's own f16 scales                            exact
//   Q4_1, Q4_K    u4 in groups of 32, f16 scales and f16 zero points (-minimum / scale)    1e-3
//   Q5_1, Q5_K    u8 likewise                                                              1e-3
//   Q2_K          u4 in groups of 16, likewise                                             1e-3
//   Q3_K          i4 in groups of 16, f16 scales                                           5e-4
//   Q6_K          i8 in groups of 16, f16 scales                                           5e-4
//   IQ4_XS        i8 in groups of 32, f16 scales                                           5e-4
//   F32, F16, BF16 as they are                                                             exact
//   F8_E4M3       f16, its scales multiplied in                                            5e-4
// The figures bound the error of any weight, relative to the largest |weight| that the tensor's
// scales allow. An integer zero point, as elsewhere, would lose Q4_1's minimum (8e-2). Scales that
// an f16 cannot hold (above 65504, or all tiny) turn the whole tensor into plain f32 instead.
// Converted (quantize.h has the error, --report measures it):
//   int8       i8, a f16 scale for each row ([rows, columns], scales [rows, 1])
//   int4       i4 in groups of 128, 64 or 32, f16 scales
//   int4-asym  u4 likewise, u4 zero points
//   f16, bf16  2^-11 and 2^-8 of each value
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <openvino/core/shape.hpp>
#include <openvino/core/type/element_type.hpp>

#include "compiler/quantize.h"
#include "compiler/weight_options.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

enum class ZeroPoints { kNone, kHalf, kNibble };

/// The constants of one tensor: rows of columns, a stack's matrices one below the other.
struct WeightEncoding {
  model::TensorType source = model::TensorType::kF32;
  ov::element::Type type = ov::element::f32;  ///< of the values
  std::uint64_t experts = 0;                  ///< matrices of a stack; 0: no stack
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t group = 0;  ///< columns that share a scale; 0: no scales
  ZeroPoints zero_points = ZeroPoints::kNone;
  /// Made of floats; none: the source's own quants, or plain values.
  std::optional<QuantOptions> quantized = {};

  std::uint64_t groups() const { return group == 0 ? 0 : columns / group; }
  bool is_by_row() const { return quantized && quantized->kind == QuantKind::kInt8; }
  /// True where the stored bytes are repacked as they are.
  bool is_kept() const;
  /// [rows, groups, group], or [rows, columns] without scales or with one for each row; of a stack
  /// [experts, rows / experts, ...].
  ov::Shape values_shape() const;
  ov::Shape scales_shape() const;  ///< of scales and zero points; [rows, groups, 1] or [rows, 1]
  ov::element::Type zero_point_type() const;
  std::uint64_t row_bytes() const;  ///< of the values
  std::uint64_t value_bytes() const { return rows * row_bytes(); }
  std::uint64_t scale_bytes() const { return rows * groups() * sizeof(std::uint16_t); }
  std::uint64_t zero_point_bytes() const;
};

/// The form of a tensor under a kind that is resolved. An int4 whose columns no group divides
/// becomes int8.
WeightEncoding choose_encoding(const PlannedTensor& tensor, WeightKind kind,
                               const WeightOptions& options);
/// The same tensor as plain f32, where its scales do not fit.
WeightEncoding as_f32(WeightEncoding encoding);

/// Room for some converted rows.
struct EncodedRows {
  std::span<std::byte> values;           ///< row_bytes() for each
  std::span<std::uint16_t> scales;       ///< groups() for each, f16 bits
  std::span<std::uint16_t> half_points;  ///< groups() where zero points are f16
  std::span<std::uint8_t> nibbles;       ///< groups() where they are u4, not packed yet
};

enum class EncodeStatus { kDone, kNotFinite, kScaleNotFinite, kTooLarge };

/// What is learned of a tensor while its rows go by.
struct RowFacts {
  ErrorSums errors;
  float largest_scale = 0.0F;  ///< magnitudes of kept scales and offsets
  float largest_offset = 0.0F;

  void add(const RowFacts& other);
};

/// Converts whole stored rows of a kept encoding.
EncodeStatus encode_kept(const WeightEncoding& encoding, std::span<const std::byte> rows,
                         const EncodedRows& result, RowFacts& facts);
/// Converts whole rows of floats; counts errors. `scratch` is memory to be used again.
EncodeStatus encode_floats(const WeightEncoding& encoding, std::span<const float> rows,
                           const EncodedRows& result, std::vector<std::int8_t>& scratch,
                           RowFacts& facts);
/// What encoded rows mean.
void decode_rows(const WeightEncoding& encoding, const EncodedRows& rows, std::span<float> values);

/// True where f16 scales and zero points kept the bound above.
bool scales_fit(const WeightEncoding& encoding, const RowFacts& facts);

}  // namespace paceline::compiler
