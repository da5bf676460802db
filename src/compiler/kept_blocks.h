// Blocks of ggml's types as quants, f16 scales and f16 zero points: the forms of weight_encoding.h
// that lose next to nothing.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/weight_encoding.h"

namespace paceline::compiler {

/// Rows of blocks; kScaleNotFinite, or kDone also where scales do not fit (scales_fit tells).
EncodeStatus repack_blocks(const WeightEncoding& encoding, std::span<const std::byte> rows,
                           const EncodedRows& result, RowFacts& facts);

/// Of elements that are F32, F16 or BF16.
bool all_finite(model::TensorType type, std::span<const std::byte> elements);

}  // namespace paceline::compiler
