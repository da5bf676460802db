// Weights as small integers with a scale (and a zero point) a group:
// value = scale * (quant - zero point). Pure: no files, no OpenVINO, no threads.
//
// Symmetric int4 has quants -8..7 and a scale whose sign sends the largest magnitude of the group
// to -8, so that all 16 levels are used. Asymmetric int4 has quants 0..15 and an integer zero point
// such that 0 stays 0. int8 has quants -127..127. Scales are rounded to f16 before values are, so
// the error that is measured is the error that the reader of the file has.
//
// Search: the largest magnitude is a poor judge of a group, since one outlier makes all steps wide.
// For each of some scales around it the quants are found, the scale is fitted to them by least
// squares, and the one of the least weighted error wins; never worse than max-abs. A value's error
// weighs |value| + the group's root mean square: a large weight moves the output more often. A
// search over zero points too, or a second round of fitting, was not worth its time.
//
// The results are the same bits on every CPU: sums are kept in sixteen lanes that are added in one
// order, and no product and sum are contracted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::compiler {

enum class QuantKind { kInt4, kInt4Asymmetric, kInt8 };

struct QuantOptions {
  QuantKind kind = QuantKind::kInt4;
  /// Columns that share a scale: 32, 64 or 128 of int4, at will of int8 (all columns, say).
  std::size_t group = 128;
  bool search = true;  ///< int4 only: with 127 steps there is nothing to gain
};

/// What became of the values.
enum class QuantStatus {
  kDone,
  kNotFinite,  ///< a value is infinite or NaN
  kTooLarge,   ///< a scale is beyond an f16: a value above some 500,000 (of int8, 8,000,000)
};

/// Room for the result; `zero_points` is used of kInt4Asymmetric alone.
struct QuantResult {
  std::span<std::int8_t> quants;        ///< one for each value
  std::span<std::uint16_t> scales;      ///< f16 bits, one for each group
  std::span<std::uint8_t> zero_points;  ///< 0..15
};

/// Sums over values and their errors.
struct ErrorSums {
  double squares = 0.0;  ///< of the values
  double error_squares = 0.0;
  double weighted_squares = 0.0;  ///< each times its weight
  double weighted_error_squares = 0.0;
  float largest_value = 0.0F;  ///< magnitudes
  float largest_error = 0.0F;

  void add(const ErrorSums& other);
  /// Root mean square of the error over that of the values; 0 where all values are 0.
  double relative() const;
  double weighted_relative() const;
};

/// Quantizes `values`, any whole number of groups (several rows at once, where groups do not cross
/// them), and adds to `sums`. Thread-safe. What is not kDone leaves `result` and `sums`
/// unspecified.
QuantStatus quantize(std::span<const float> values, const QuantOptions& options,
                     const QuantResult& result, ErrorSums& sums);

/// Adds the errors of `stored` as an approximation of `values` to `sums`, by groups of `group`
/// (which matters to the weights).
void measure_errors(std::span<const float> values, std::span<const float> stored, std::size_t group,
                    ErrorSums& sums);

/// The elements of f16 or bf16 as floats, exactly; `bits` need not be aligned.
void widen_half(const std::byte* bits, std::span<float> values);
void widen_bfloat(const std::byte* bits, std::span<float> values);

/// Two quants a byte, the first in the low nibble, as OpenVINO's i4 and u4 are. An even number.
void pack_nibbles(std::span<const std::int8_t> quants, std::byte* packed);

}  // namespace paceline::compiler
