#include "model/dequantize.h"

#include <cstring>

#include "base/check.h"
#include "model/half.h"
#include "model/quantized_block.h"

namespace paceline::model {
namespace {

void dequantize_block(TensorType type, std::span<const std::byte> block, float* values) {
  UnpackedBlock unpacked;
  unpack_block(type, block, unpacked);
  const std::size_t group = group_elements(type);
  for (std::size_t i = 0; i < block_elements(type); ++i) {
    values[i] = unpacked.scales[i / group] * static_cast<float>(unpacked.quants[i]) +
                unpacked.offsets[i / group];
  }
}

/// Elements of two bytes and of one.
void widen(TensorType type, std::span<const std::byte> elements, std::span<float> values) {
  if (type == TensorType::kF8_E4M3) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = f8e4m3_to_float(std::to_integer<std::uint8_t>(elements[i]));
    }
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, elements.data() + i * sizeof(bits), sizeof(bits));
    values[i] = type == TensorType::kF16 ? half_to_float(bits) : bfloat_to_float(bits);
  }
}

}  // namespace

void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> values) {
  const std::size_t count = values.size() / block_elements(type);
  PACELINE_CHECK(count * block_elements(type) == values.size());
  PACELINE_CHECK(count * block_bytes(type) == blocks.size());
  if (is_quantized(type)) {
    for (std::size_t i = 0; i < count; ++i) {
      dequantize_block(type, blocks.subspan(i * block_bytes(type), block_bytes(type)),
                       values.data() + i * block_elements(type));
    }
  } else if (type == TensorType::kF32) {
    if (!blocks.empty()) std::memcpy(values.data(), blocks.data(), blocks.size());
  } else {
    widen(type, blocks, values);
  }
}

}  // namespace paceline::model
