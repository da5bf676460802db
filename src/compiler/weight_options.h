// What the user chose for the weights, and what that means for each tensor of a plan. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "compiler/quantize.h"
#include "compiler/tensor_plan.h"

namespace paceline::compiler {

/// How matrices are stored. kKeep is the source's own form, or the nearest that OpenVINO can hold.
enum class WeightKind { kKeep, kF32, kF16, kBF16, kInt8, kInt4, kInt4Asymmetric };

/// e.g. "int4-asym"; kKeep is "keep".
std::string_view to_string(WeightKind kind);
std::optional<WeightKind> weight_kind_from(std::string_view text);

struct WeightOptions {
  /// None: kKeep where some matrix of the source is quantized already, else kInt4.
  std::optional<WeightKind> weights = WeightKind::kKeep;
  /// None: kInt8 where `weights` is one of int4, else as `weights`. A tied table is an embedding.
  std::optional<WeightKind> embedding = {};
  std::optional<WeightKind> head = {};
  std::uint64_t group = 128;  ///< of int4; the largest of it, 64 and 32 that divides is used
  std::set<std::uint32_t> int8_layers = {};  ///< whose int4 matrices are int8 instead
  bool search = true;
};

enum class TensorRole { kEmbedding, kHead, kVector, kRouter, kMatrix };

TensorRole role_of(const PlannedTensor& tensor);
/// The layer that a name of the graph belongs to; none for embedding, final norm and head.
std::optional<std::uint32_t> layer_of(std::string_view name);
/// The name without its layer's prefix and ".weight", e.g. "self_attn.q_proj".
std::string part_of(std::string_view name);

/// `options` with `weights`, `embedding` and `head` decided for a plan.
WeightOptions resolved(WeightOptions options, const TensorPlan& plan);

/// The kind of one tensor under resolved options: norms, biases and routers are small and touch
/// every token, so they are f32.
WeightKind kind_of(const PlannedTensor& tensor, const WeightOptions& options);

/// The largest of `wanted`, 64 and 32 (none above `wanted`) that divides `columns`; 0: none.
std::uint64_t group_for(std::uint64_t columns, std::uint64_t wanted);

}  // namespace paceline::compiler
