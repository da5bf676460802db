// How a stored tensor becomes constants of an OpenVINO graph: which element types and shapes, and
// the conversion of its rows. Knows no files and builds no nodes.
//
// The forms are those that the CPU plugin fuses into a compressed FullyConnected or Gather:
//   Q8_0        i8 in groups of 32, the file's own f16 scales                          exact
//   Q4_0        i4 in groups of 32, the file's own f16 scales                          exact
//   Q4_1, Q4_K  u4 in groups of 32, f16 scales and f16 zero points (-minimum / scale)  1e-3
//   Q6_K        i8 in groups of 16, f16 scales                                         5e-4
//   F32, F16, BF16 as they are                                                         exact
// The figures bound the error of any weight, relative to the largest |weight| that the tensor's
// scales allow. An integer zero point, as elsewhere, would lose Q4_1's minimum (8e-2). Scales that
// an f16 cannot hold (above 65504, or all tiny) turn the whole tensor into plain f32 instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <openvino/core/shape.hpp>
#include <openvino/core/type/element_type.hpp>

#include "base/error.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// The constants of one matrix of [rows, columns].
struct WeightEncoding {
  model::TensorType source = model::TensorType::kF32;
  ov::element::Type type = ov::element::f32;  ///< of the values
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t group = 0;  ///< columns that share a scale; 0: no scales
  bool has_zero_points = false;

  std::uint64_t groups() const { return group == 0 ? 0 : columns / group; }
  ov::Shape values_shape() const;   ///< [rows, groups, group], or [rows, columns] without scales
  ov::Shape scales_shape() const;   ///< [rows, groups, 1], of scales and zero points (f16)
  std::uint64_t row_bytes() const;  ///< of the values
};

/// Chooses the form of `tensor`, a vector or matrix with the stored `bytes`; reads its scales.
/// A vector is a matrix of one row. kDataLoss where a scale is not finite.
Result<WeightEncoding> choose_encoding(const model::TensorInfo& tensor,
                                       std::span<const std::byte> bytes);

/// Room for one converted row.
struct EncodedRow {
  std::span<std::byte> values;           ///< row_bytes()
  std::span<std::uint16_t> scales;       ///< groups(), f16 bits
  std::span<std::uint16_t> zero_points;  ///< groups() where there are zero points
};

/// Converts one stored row. False where a plain value is not finite.
bool encode_row(const WeightEncoding& encoding, std::span<const std::byte> row, EncodedRow result);

}  // namespace paceline::compiler
