// A tensor's constants as they lie in the .bin, and what is known of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <openvino/core/shape.hpp>
#include <openvino/core/type/element_type.hpp>

#include "compiler/quantize.h"
#include "compiler/weight_encoding.h"

namespace paceline::compiler {

struct StoredConstant {
  ov::element::Type type = ov::element::f32;
  ov::Shape shape;
  std::uint64_t offset = 0;
};

/// Scales (f16) where `encoding.group` is not 0, zero points where the encoding has them.
struct StoredWeight {
  WeightEncoding encoding;
  StoredConstant values;
  StoredConstant scales;
  StoredConstant zero_points;
  std::uint64_t source_bytes = 0;
  ErrorSums errors = {};  ///< of floats that were converted; of all where it was asked for

  std::uint64_t stored_bytes() const {
    return encoding.value_bytes() + encoding.scale_bytes() + encoding.zero_point_bytes();
  }
};

/// By the graph's names.
using StoredWeights = std::map<std::string, StoredWeight, std::less<>>;

}  // namespace paceline::compiler
