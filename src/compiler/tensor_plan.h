// Which stored tensors a decoder is made of, in the order in which they lie in the IR, under the
// names that its graph uses (those of Hugging Face's Llama).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/decoder_config.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// How rows of a stored matrix, or elements of its bias, are ordered anew. llama-family GGUFs keep
/// query and key rows so that the pairs that rope turns lie side by side (rows 2i and 2i+1 of a
/// head); the graph turns the pairs (i, i + rotary/2), the form that plugins fuse. Attention is the
/// same under any order that queries and keys share.
struct RowOrder {
  std::uint64_t head_size = 0;  ///< 0: rows stay as they are
  std::uint64_t rotary = 0;     ///< leading rows of a head that rope turns
  /// The stored row that becomes row `row`.
  std::uint64_t source_row(std::uint64_t row) const;
};

/// Rows of a stored tensor; of a stack of matrices [E, rows, columns], E * rows of them, and of a
/// vector its elements.
struct TensorPiece {
  const model::TensorInfo* source = nullptr;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  /// FP8: what `source` is multiplied with, of the whole tensor, not of this piece alone. A factor
  /// for all ([] or [1]) or for each row ([R] or [R, 1]), or, where the configuration has
  /// fp8_block_rows and _columns, for each block of them. Null: nothing.
  const model::TensorInfo* scale = nullptr;
};

struct PlannedTensor {
  std::string name;  ///< e.g. "model.layers.0.self_attn.q_proj.weight"
  /// [length], [rows, columns], or [experts, rows, columns].
  std::vector<std::uint64_t> shape;
  /// One below the other they are the tensor; one piece unless the source splits or fuses it.
  std::vector<TensorPiece> pieces;
  RowOrder order = {};  ///< of the rows of all pieces together
};

struct TensorPlan {
  /// Embedding, layer 0, layer 1, ..., final norm, head (absent where tied).
  std::vector<PlannedTensor> tensors;
};

/// Finds every tensor of a decoder in `source`, under Hugging Face's names or GGUF's, and holds its
/// shape against `config`. kNotFound names a missing tensor, kDataLoss one of a wrong shape,
/// kUnimplemented one that this graph has no place for (a bias,
/// say), since leaving it out would compute something else.
Result<TensorPlan> plan_tensors(const model::TensorSource& source,
                                const model::DecoderConfig& config);

}  // namespace paceline::compiler
