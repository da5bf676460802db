#include "compiler/config_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using model::LayerConfig;
using model::RopeConfig;
using model::RopeScaling;
using nlohmann::ordered_json;

struct Row {
  std::string_view gguf;
  std::string_view name;  ///< the class of transformers
  std::string_view type;
};
constexpr std::array kRows = {
    Row{"llama", "LlamaForCausalLM", "llama"},
    Row{"", "MistralForCausalLM", "mistral"},
    Row{"", "MixtralForCausalLM", "mixtral"},
    Row{"qwen2", "Qwen2ForCausalLM", "qwen2"},
    Row{"qwen3", "Qwen3ForCausalLM", "qwen3"},
    Row{"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe"},
    Row{"phi3", "Phi3ForCausalLM", "phi3"},
    Row{"gemma2", "Gemma2ForCausalLM", "gemma2"},
    Row{"gemma3", "Gemma3ForCausalLM", "gemma3_text"},
    Row{"smollm3", "SmolLM3ForCausalLM", "smollm3"},
    Row{"olmo2", "Olmo2ForCausalLM", "olmo2"},
    Row{"granite", "GraniteForCausalLM", "granite"},
};

std::uint32_t window_of(const DecoderConfig& config) {
  std::uint32_t window = 0;
  for (const LayerConfig& layer : config.layers) window = std::max(window, layer.window_tokens);
  return window;
}

/// A GGUF of "llama" may be a Mistral or a Mixtral as well.
const Row& row_of(const DecoderConfig& config) {
  std::string_view wanted = config.architecture;
  if (wanted == "llama" && window_of(config) > 0) wanted = "MistralForCausalLM";
  if (wanted == "llama" && config.experts.count > 0) wanted = "MixtralForCausalLM";
  const auto* const found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) {
    return wanted == row.gguf || wanted == row.name;
  });
  return found == kRows.end() ? kRows.front() : *found;
}

ordered_json long_rope(const std::vector<float>& near, const std::vector<float>& far) {
  return {{"rope_type", "longrope"}, {"short_factor", near}, {"long_factor", far}};
}

ordered_json rope_scaling(const RopeConfig& rope) {
  if (!rope.divisors.empty()) {  // a GGUF's own: the same for all lengths
    ordered_json json = long_rope(rope.divisors, rope.divisors);
    json["factor"] = 1.0F;
    json["attention_factor"] = 1.0F;
    return json;
  }
  switch (rope.scaling) {
    case RopeScaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeScaling::kDynamic:
      return {{"rope_type", "dynamic"}, {"factor", rope.factor}};
    case RopeScaling::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_frequency_factor},
              {"high_freq_factor", rope.high_frequency_factor},
              {"original_max_position_embeddings", rope.original_context_tokens}};
    case RopeScaling::kYarn:
      return {{"rope_type", "yarn"},
              {"factor", rope.factor},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow},
              {"truncate", rope.truncate},
              {"attention_factor", rope.attention_factor},
              {"original_max_position_embeddings", rope.original_context_tokens}};
    case RopeScaling::kLongRope: {
      ordered_json json = long_rope(rope.short_factors, rope.long_factors);
      json["factor"] = rope.factor;
      json["attention_factor"] = rope.attention_factor;
      return json;
    }
    case RopeScaling::kNone:
      break;
  }
  return nullptr;
}

void add_sizes(const DecoderConfig& config, ordered_json& json) {
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.layers.size();
  json["num_attention_heads"] = config.attention_heads;
  json["num_key_value_heads"] = config.key_value_heads;
  json["head_dim"] = config.head_size;
  json["vocab_size"] = config.vocabulary_size;
  json["max_position_embeddings"] = config.context_tokens;
  json["rms_norm_eps"] = config.rms_norm_epsilon;
  json["tie_word_embeddings"] = config.tied_head;
}

void add_ropes(const DecoderConfig& config, ordered_json& json) {
  const RopeConfig& rope = config.ropes[0];
  json["rope_theta"] = rope.theta;
  json["rope_scaling"] = rope_scaling(rope);
  if (config.ropes.size() > 1) json["rope_local_base_freq"] = config.ropes[1].theta;
  if (rope.scaling == RopeScaling::kLongRope) {
    json["original_max_position_embeddings"] = rope.original_context_tokens;
  }
  if (config.rope_dimensions != config.head_size) {
    json["partial_rotary_factor"] = static_cast<double>(config.rope_dimensions) / config.head_size;
  }
}

void add_window(const DecoderConfig& config, std::string_view type, ordered_json& json) {
  const std::uint32_t window = window_of(config);
  const bool has_switch = type.starts_with("qwen") || type == "smollm3";
  if (has_switch) json["use_sliding_window"] = window > 0;
  const bool is_alternating = type.starts_with("gemma");
  const bool may_slide =
      has_switch || is_alternating || type == "mistral" || type == "mixtral" || type == "phi3";
  if (!may_slide) return;
  json["sliding_window"] = window > 0 ? ordered_json(window) : ordered_json(nullptr);
  if (!is_alternating) return;
  ordered_json types = ordered_json::array();
  for (const LayerConfig& layer : config.layers) {
    types.push_back(layer.window_tokens > 0 ? "sliding_attention" : "full_attention");
  }
  json["layer_types"] = std::move(types);
}

void add_experts(const DecoderConfig& config, std::string_view type, ordered_json& json) {
  if (config.experts.count == 0) return;
  json["num_experts_per_tok"] = config.experts.used;
  if (type == "mixtral") {
    json["num_local_experts"] = config.experts.count;
    json["intermediate_size"] = config.experts.intermediate_size;
    return;
  }
  json["num_experts"] = config.experts.count;
  json["moe_intermediate_size"] = config.experts.intermediate_size;
  json["norm_topk_prob"] = config.experts.normalized;
  json["decoder_sparse_step"] = 1;
  ordered_json without = ordered_json::array();
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (!config.layers[i].has_experts) without.push_back(i);
  }
  json["mlp_only_layers"] = std::move(without);
}

void add_multipliers(const DecoderConfig& config, std::string_view type, ordered_json& json) {
  if (type.starts_with("gemma")) {
    const float scale = config.attention_scale;
    json["query_pre_attn_scalar"] =
        scale == 0.0F ? static_cast<float>(config.head_size) : 1.0F / (scale * scale);
    const auto cap = [](float value) {
      return value == 0.0F ? ordered_json(nullptr) : ordered_json(value);
    };
    json["attn_logit_softcapping"] = cap(config.attention_softcap);
    json["final_logit_softcapping"] = cap(config.logit_softcap);
  }
  if (type == "granite") {
    json["attention_multiplier"] = config.attention_scale;
    json["embedding_multiplier"] = config.embedding_multiplier;
    json["residual_multiplier"] = config.residual_multiplier;
    json["logits_scaling"] = 1.0F / config.logit_multiplier;
  }
}

/// One id, or a list where there are several.
void add_token_ids(const DecoderConfig& config, ordered_json& json) {
  if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
  if (config.eos_token_ids.size() == 1) json["eos_token_id"] = config.eos_token_ids[0];
  if (config.eos_token_ids.size() > 1) json["eos_token_id"] = config.eos_token_ids;
  if (config.padding_token_id >= 0) json["pad_token_id"] = config.padding_token_id;
}

}  // namespace

std::string config_json(const DecoderConfig& config) {
  const Row& row = row_of(config);
  const bool is_gelu = config.activation == model::Activation::kGeluTanh;
  ordered_json json;
  json["architectures"] = {row.name};
  json["model_type"] = row.type;
  json[row.type.starts_with("gemma") ? "hidden_activation" : "hidden_act"] =
      is_gelu ? "gelu_pytorch_tanh" : "silu";
  add_sizes(config, json);
  if (row.type != "qwen2") json["attention_bias"] = config.query_key_value_bias;
  if (config.feed_forward_bias) json["mlp_bias"] = true;
  add_ropes(config, json);
  add_window(config, row.type, json);
  add_experts(config, row.type, json);
  add_multipliers(config, row.type, json);
  if (row.type == "smollm3") {
    ordered_json has_rope = ordered_json::array();
    for (const LayerConfig& layer : config.layers) {
      has_rope.push_back(layer.rope == LayerConfig::kNoRope ? 0 : 1);
    }
    json["no_rope_layers"] = std::move(has_rope);
  }
  add_token_ids(config, json);
  return json.dump(2) + "\n";
}

std::string generation_config_json(const DecoderConfig& config) {
  ordered_json json = ordered_json::object();
  add_token_ids(config, json);
  return json.dump(2) + "\n";
}

}  // namespace paceline::compiler
