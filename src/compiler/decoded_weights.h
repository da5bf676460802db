// What the constants of a matrix mean, computed apart from the code that made them. For tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <openvino/core/type/element_type.hpp>

#include "model/half.h"

namespace paceline::compiler {

struct EncodedMatrix {
  ov::element::Type type;
  std::span<const std::byte> values;
  std::span<const std::uint16_t> scales;       ///< empty: none
  std::span<const std::uint16_t> zero_points;  ///< f16; empty: all 0
  std::span<const std::byte> nibbles = {};     ///< or u4, two a byte
};

inline float decoded_quant(const EncodedMatrix& matrix, std::size_t index) {
  if (matrix.type == ov::element::u8) {
    return static_cast<float>(std::to_integer<std::uint8_t>(matrix.values[index]));
  }
  if (matrix.type == ov::element::i8) {
    return static_cast<float>(std::to_integer<std::int8_t>(matrix.values[index]));
  }
  const int pair = std::to_integer<int>(matrix.values[index / 2]);
  const int nibble = index % 2 == 0 ? pair & 15 : pair >> 4;
  const bool negative = matrix.type == ov::element::i4 && nibble > 7;
  return static_cast<float>(negative ? nibble - 16 : nibble);
}

/// (quant - zero point) * scale, in f32.
inline std::vector<float> decoded(const EncodedMatrix& matrix, std::size_t elements) {
  std::vector<float> result(elements);
  const std::size_t group = elements / matrix.scales.size();
  for (std::size_t g = 0; g < matrix.scales.size(); ++g) {
    const float scale = model::half_to_float(matrix.scales[g]);
    float zero_point =
        matrix.zero_points.empty() ? 0.0F : model::half_to_float(matrix.zero_points[g]);
    if (!matrix.nibbles.empty()) {
      const int pair = std::to_integer<int>(matrix.nibbles[g / 2]);
      zero_point = static_cast<float>(g % 2 == 0 ? pair & 15 : pair >> 4);
    }
    for (std::size_t i = g * group; i < (g + 1) * group; ++i) {
      result[i] = (decoded_quant(matrix, i) - zero_point) * scale;
    }
  }
  return result;
}

}  // namespace paceline::compiler
