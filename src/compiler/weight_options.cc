#include "compiler/weight_options.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "model/quantized_block.h"

namespace paceline::compiler {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"keep", "f32",  "f16",      "bf16",
                                                    "int8", "int4", "int4-asym"};
constexpr std::string_view kLayerPrefix = "model.layers.";
constexpr std::string_view kWeightSuffix = ".weight";

bool is_int4(WeightKind kind) {
  return kind == WeightKind::kInt4 || kind == WeightKind::kInt4Asymmetric;
}

/// The layer's number and the name after it.
struct LayerName {
  std::uint32_t layer;
  std::string_view rest;
};

std::optional<LayerName> split(std::string_view name) {
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  LayerName result = {};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), result.layer);
  const auto digits = static_cast<std::size_t>(end - name.data());
  if (error != std::errc() || digits == name.size() || name[digits] != '.') return std::nullopt;
  result.rest = name.substr(digits + 1);
  return result;
}

bool is_quantized(const PlannedTensor& tensor) {
  return std::any_of(tensor.pieces.begin(), tensor.pieces.end(), [](const TensorPiece& piece) {
    return model::is_quantized(piece.source->type);
  });
}

}  // namespace

std::string_view to_string(WeightKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<WeightKind> weight_kind_from(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<WeightKind>(found - kNames.begin());
}

TensorRole role_of(const PlannedTensor& tensor) {
  if (tensor.shape.size() == 1) return TensorRole::kVector;
  if (tensor.name == "model.embed_tokens.weight") return TensorRole::kEmbedding;
  if (tensor.name == "lm_head.weight") return TensorRole::kHead;
  return part_of(tensor.name) == "mlp.gate" ? TensorRole::kRouter : TensorRole::kMatrix;
}

std::optional<std::uint32_t> layer_of(std::string_view name) {
  const auto parts = split(name);
  if (!parts) return std::nullopt;
  return parts->layer;
}

std::string part_of(std::string_view name) {
  if (const auto parts = split(name)) name = parts->rest;
  if (name.ends_with(kWeightSuffix)) name.remove_suffix(kWeightSuffix.size());
  return std::string(name);
}

WeightOptions resolved(WeightOptions options, const TensorPlan& plan) {
  if (!options.weights) {
    const bool keep = std::any_of(plan.tensors.begin(), plan.tensors.end(), is_quantized);
    options.weights = keep ? WeightKind::kKeep : WeightKind::kInt4;
  }
  const WeightKind other = is_int4(*options.weights) ? WeightKind::kInt8 : *options.weights;
  const bool is_tied = std::none_of(plan.tensors.begin(), plan.tensors.end(),
                                    [](const auto& t) { return role_of(t) == TensorRole::kHead; });
  if (!options.embedding && is_tied) options.embedding = options.head;
  options.embedding = options.embedding.value_or(other);
  options.head = options.head.value_or(other);
  return options;
}

WeightKind kind_of(const PlannedTensor& tensor, const WeightOptions& options) {
  PACELINE_CHECK(options.weights && options.embedding && options.head);
  switch (role_of(tensor)) {
    case TensorRole::kVector:
    case TensorRole::kRouter:
      return WeightKind::kF32;
    case TensorRole::kEmbedding:
      return *options.embedding;
    case TensorRole::kHead:
      return *options.head;
    case TensorRole::kMatrix:
      break;
  }
  const auto layer = layer_of(tensor.name);
  const bool in_int8 = layer && options.int8_layers.contains(*layer);
  return in_int8 && is_int4(*options.weights) ? WeightKind::kInt8 : *options.weights;
}

std::uint64_t group_for(std::uint64_t columns, std::uint64_t wanted) {
  for (const std::uint64_t group : {wanted, std::uint64_t{64}, std::uint64_t{32}}) {
    if (group <= wanted && columns % group == 0) return group;
  }
  return 0;
}

}  // namespace paceline::compiler
