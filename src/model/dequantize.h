// The definition of every TensorType in f32: what a stored tensor means.
//
// The reference that conversions are tested against; not a fast path.
#pragma once

#include <cstddef>
#include <span>

#include "model/tensor_source.h"

namespace paceline::model {

/// Writes the elements of the stored `blocks` to `values`; any number of whole blocks, so a tensor
/// can be read some rows at a time. `values` has exactly the elements of the blocks.
void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace paceline::model
