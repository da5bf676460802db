// How published models name the tensors of a decoder: one table for Hugging Face's files, one for
// GGUF. No shapes and no files; tensor_plan.h looks things up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder_config.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// How a stored tensor holds one of the graph's.
enum class Holding {
  kWhole,    ///< it is that tensor
  kQueries,  ///< rows of queries, keys and values lie one below the other
  kKeys,
  kValues,
  kGate,  ///< rows of gate and up
  kUp,
  kEach,       ///< one tensor for each expert, whose number stands in place of "{}"
  kStack,      ///< it is that stack of all experts, and its name ends without ".weight"
  kGateStack,  ///< the same, and in each expert rows of gate and up
  kUpStack,
};

struct StoredName {
  std::string name;
  Holding holding = Holding::kWhole;
};

/// The names of one source.
class TensorNames {
 public:
  /// Tells the naming by the embedding's tensor; Hugging Face's plain one where there is none.
  static TensorNames of(const model::TensorSource& source);

  /// Under which names the graph's `name` (Hugging Face's for a Llama, e.g.
  /// "model.layers.0.mlp.up_proj.weight") may be stored, the most usual first.
  std::vector<StoredName> stored(std::string_view name, model::NormPlacement norms) const;

  /// True of tensors that say nothing that the configuration does not (tables of rope, masks, a
  /// copy of a tied head) or are of another part of the model (its eyes).
  bool is_needless(std::string_view name, const model::DecoderConfig& config) const;

  /// Names of what scales the FP8 tensor `name`.
  static std::vector<std::string> scales(const std::string& name);

 private:
  TensorNames(bool is_gguf, std::string root) : is_gguf_(is_gguf), root_(std::move(root)) {}
  std::vector<StoredName> in_hugging_face(std::string_view name) const;

  bool is_gguf_;
  std::string root_;  ///< Hugging Face: what stands for "model."
};

}  // namespace paceline::compiler
