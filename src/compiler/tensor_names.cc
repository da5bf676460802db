#include "compiler/tensor_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using model::NormPlacement;

struct Row {
  std::string_view graph;   ///< within a layer, without ".weight" or ".bias"
  std::string_view stored;  ///< within a layer
  Holding holding = Holding::kWhole;
};

/// Beside the graph's own names, which are Hugging Face's.
constexpr std::array kHuggingFace = {
    Row{"self_attn.q_proj", "self_attn.qkv_proj", Holding::kQueries},
    Row{"self_attn.k_proj", "self_attn.qkv_proj", Holding::kKeys},
    Row{"self_attn.v_proj", "self_attn.qkv_proj", Holding::kValues},
    Row{"mlp.gate_proj", "mlp.gate_up_proj", Holding::kGate},
    Row{"mlp.up_proj", "mlp.gate_up_proj", Holding::kUp},
    Row{"mlp.gate", "block_sparse_moe.gate"},
    Row{"mlp.experts.gate_proj", "mlp.experts.{}.gate_proj", Holding::kEach},
    Row{"mlp.experts.gate_proj", "block_sparse_moe.experts.{}.w1", Holding::kEach},
    Row{"mlp.experts.up_proj", "mlp.experts.{}.up_proj", Holding::kEach},
    Row{"mlp.experts.up_proj", "block_sparse_moe.experts.{}.w3", Holding::kEach},
    Row{"mlp.experts.down_proj", "mlp.experts.{}.down_proj", Holding::kEach},
    Row{"mlp.experts.down_proj", "block_sparse_moe.experts.{}.w2", Holding::kEach},
    Row{"mlp.experts.gate_proj", "mlp.experts.gate_up_proj", Holding::kGateStack},
    Row{"mlp.experts.up_proj", "mlp.experts.gate_up_proj", Holding::kUpStack},
    Row{"mlp.experts.down_proj", "mlp.experts.down_proj", Holding::kStack},
};

constexpr std::array kGguf = {
    Row{"input_layernorm", "attn_norm"},
    Row{"self_attn.q_proj", "attn_q"},
    Row{"self_attn.q_proj", "attn_qkv", Holding::kQueries},
    Row{"self_attn.k_proj", "attn_k"},
    Row{"self_attn.k_proj", "attn_qkv", Holding::kKeys},
    Row{"self_attn.v_proj", "attn_v"},
    Row{"self_attn.v_proj", "attn_qkv", Holding::kValues},
    Row{"self_attn.q_norm", "attn_q_norm"},
    Row{"self_attn.k_norm", "attn_k_norm"},
    Row{"self_attn.o_proj", "attn_output"},
    Row{"post_attention_layernorm", "post_attention_norm"},
    Row{"pre_feedforward_layernorm", "ffn_norm"},
    Row{"post_feedforward_layernorm", "post_ffw_norm"},
    Row{"mlp.gate_proj", "ffn_gate"},
    Row{"mlp.gate_proj", "ffn_up", Holding::kGate},
    Row{"mlp.up_proj", "ffn_up"},
    Row{"mlp.up_proj", "ffn_up", Holding::kUp},
    Row{"mlp.down_proj", "ffn_down"},
    Row{"mlp.gate", "ffn_gate_inp"},
    Row{"mlp.experts.gate_proj", "ffn_gate_exps"},
    Row{"mlp.experts.gate_proj", "ffn_gate.{}", Holding::kEach},
    Row{"mlp.experts.up_proj", "ffn_up_exps"},
    Row{"mlp.experts.up_proj", "ffn_up.{}", Holding::kEach},
    Row{"mlp.experts.down_proj", "ffn_down_exps"},
    Row{"mlp.experts.down_proj", "ffn_down.{}", Holding::kEach},
};

/// Beside the text model in files of models that see.
constexpr std::array<std::string_view, 6> kOtherParts = {
    "vision_tower.",       "multi_modal_projector.",       "vision_model.",
    "model.vision_tower.", "model.multi_modal_projector.", "model.vision_model."};

/// "model.layers.12.mlp.gate.weight" -> {"model.layers.", "12", "mlp.gate", ".weight"}.
struct LayerName {
  std::string_view number;
  std::string_view inner;
  std::string_view kind;
};

std::optional<LayerName> parse_layer(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  const std::size_t begin = name.find('.') + 1;
  const std::size_t end = name.rfind('.');
  return LayerName{name.substr(0, begin - 1), name.substr(begin, end - begin), name.substr(end)};
}

bool is_stack(Holding holding) {
  return holding == Holding::kStack || holding == Holding::kGateStack ||
         holding == Holding::kUpStack;
}

void add_rows(std::span<const Row> table, const LayerName& layer, const std::string& prefix,
              std::vector<StoredName>& names) {
  for (const Row& row : table) {
    if (row.graph != layer.inner) continue;
    const std::string_view kind = is_stack(row.holding) ? "" : layer.kind;
    names.push_back(
        {fmt::format("{}{}.{}{}", prefix, layer.number, row.stored, kind), row.holding});
  }
}

std::vector<StoredName> in_gguf(std::string_view name, NormPlacement norms) {
  if (name == "model.embed_tokens.weight") return {{"token_embd.weight"}};
  if (name == "model.norm.weight") return {{"output_norm.weight"}};
  if (name == "lm_head.weight") return {{"output.weight"}};
  auto layer = parse_layer(name);
  std::vector<StoredName> names;
  if (!layer) return names;
  // Hugging Face calls the feed-forward's own norm by what comes before it, GGUF by its purpose.
  const bool is_feed_forwards =
      norms == NormPlacement::kBefore && layer->inner == "post_attention_layernorm";
  if (is_feed_forwards) layer->inner = "pre_feedforward_layernorm";
  add_rows(kGguf, *layer, "blk.", names);
  return names;
}

}  // namespace

TensorNames TensorNames::of(const model::TensorSource& source) {
  if (source.find("token_embd.weight")) return {true, ""};
  for (const char* root : {"model.", "language_model.model.", "model.language_model."}) {
    if (source.find(std::string(root) + "embed_tokens.weight")) return {false, root};
  }
  return {false, "model."};
}

std::vector<StoredName> TensorNames::stored(std::string_view name, NormPlacement norms) const {
  return is_gguf_ ? in_gguf(name, norms) : in_hugging_face(name);
}

std::vector<StoredName> TensorNames::in_hugging_face(std::string_view name) const {
  constexpr std::string_view kModel = "model.";
  if (!name.starts_with(kModel)) {  // the head
    const bool is_inside = root_.starts_with("language_model.");
    return {{(is_inside ? "language_model." : "") + std::string(name)}};
  }
  std::vector<StoredName> names;
  const auto layer = parse_layer(name);
  const bool is_of_experts = layer && layer->inner.starts_with("mlp.experts.");
  if (!is_of_experts) names.push_back({root_ + std::string(name.substr(kModel.size()))});
  if (layer) add_rows(kHuggingFace, *layer, root_ + "layers.", names);
  return names;
}

bool TensorNames::is_needless(std::string_view name, const DecoderConfig& config) const {
  if (is_gguf_) {
    // The configuration has read them.
    const bool is_long = config.ropes[0].scaling == model::RopeScaling::kLongRope;
    if (name == "rope_freqs.weight") return !config.ropes[0].divisors.empty();
    return is_long && (name == "rope_factors_long.weight" || name == "rope_factors_short.weight");
  }
  if (name.ends_with("lm_head.weight")) return config.tied_head;
  for (const char* ending : {".rotary_emb.inv_freq", ".self_attn.bias", ".self_attn.masked_bias",
                             ".input_scale", ".k_scale", ".v_scale"}) {
    if (name.ends_with(ending)) return true;
  }
  return root_ != "model." &&
         std::any_of(kOtherParts.begin(), kOtherParts.end(),
                     [&](std::string_view part) { return name.starts_with(part); });
}

std::vector<std::string> TensorNames::scales(const std::string& name) {
  return {name + "_scale_inv", name + "_scale"};
}

}  // namespace paceline::compiler
