// A whole tensor at once. For tests and fuzz targets.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"
#include "model/dequantize.h"
#include "model/tensor_source.h"

namespace paceline::model {

/// Its stored bytes.
inline std::vector<std::byte> stored_bytes(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.size_bytes);
  PACELINE_CHECK(source.read(tensor, 0, bytes).has_value());
  return bytes;
}

/// What they mean.
inline std::vector<float> stored_values(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<float> values(tensor.size_bytes / block_bytes(tensor.type) *
                            block_elements(tensor.type));
  dequantize(tensor.type, stored_bytes(source, tensor), values);
  return values;
}

}  // namespace paceline::model
