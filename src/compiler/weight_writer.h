// Streams the tensors of a plan, converted, into the .bin: some rows at a time, whatever their
// size.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include <openvino/core/shape.hpp>
#include <openvino/core/type/element_type.hpp>

#include "base/error.h"
#include "compiler/bin_file.h"
#include "compiler/progress.h"
#include "compiler/tensor_plan.h"
#include "compiler/weight_encoding.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// A constant as it lies in the .bin.
struct StoredConstant {
  ov::element::Type type = ov::element::f32;
  ov::Shape shape;
  std::uint64_t offset = 0;
};

/// A tensor's constants; scales (f16) where `encoding.group` is not 0.
struct StoredWeight {
  WeightEncoding encoding;
  StoredConstant values;
  StoredConstant scales;
  StoredConstant zero_points;
};

/// By the graph's names.
using StoredWeights = std::map<std::string, StoredWeight, std::less<>>;

/// Writes every tensor of `plan` to `bin`, in its order: values, scales, zero points. Holds at most
/// a few megabytes beside the mapped source. Vectors become f32.
Result<StoredWeights> write_weights(const model::TensorSource& source, const TensorPlan& plan,
                                    BinFile& bin, Progress& progress);

}  // namespace paceline::compiler
