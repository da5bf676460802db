#include "compiler/golden_config.h"
#include <nlohmann/json.hpp>
#include <cmath>
#include "compiler/golden_model.h"
#include "system/files.h"
namespace paceline::compiler {
using namespace model;
DecoderConfig golden_config(const std::string& name) {
  const auto j = nlohmann::json::parse(*system::read_text_file(golden_directory(name) / "config.json", 1 << 20));
  DecoderConfig c;
  const std::string t = c.architecture = j["model_type"];
  c.hidden_size = j["hidden_size"]; c.intermediate_size = j["intermediate_size"];
  c.attention_heads = j["num_attention_heads"]; c.key_value_heads = j["num_key_value_heads"];
  c.head_size = j.value("head_dim", c.hidden_size / c.attention_heads);
  c.vocabulary_size = j["vocab_size"]; c.context_tokens = j["max_position_embeddings"];
  c.layers.resize(j["num_hidden_layers"]);
  c.rms_norm_epsilon = j["rms_norm_eps"]; c.tied_head = j["tie_word_embeddings"];
  c.rope_dimensions = static_cast<std::uint32_t>(c.head_size * j.value("partial_rotary_factor", 1.0));
  RopeConfig r; r.theta = j["rope_theta"];
  if (j.contains("rope_scaling") && !j["rope_scaling"].is_null()) {
    const auto& s = j["rope_scaling"];
    const std::string k = s.contains("rope_type") ? s["rope_type"] : s["type"];
    r.factor = s.value("factor", 1.0F);
    r.original_context_tokens = s.value("original_max_position_embeddings", j.value("original_max_position_embeddings", c.context_tokens));
    if (k == "linear") r.scaling = RopeScaling::kLinear;
    if (k == "dynamic") r.scaling = RopeScaling::kDynamic;
    if (k == "llama3") { r.scaling = RopeScaling::kLlama3; r.low_frequency_factor = s["low_freq_factor"]; r.high_frequency_factor = s["high_freq_factor"]; }
    if (k == "yarn") { r.scaling = RopeScaling::kYarn; r.beta_fast = s["beta_fast"]; r.beta_slow = s["beta_slow"]; r.attention_factor = 0.1F * std::log(r.factor) + 1.0F; }
    if (k == "longrope") { r.scaling = RopeScaling::kLongRope; r.short_factors = s["short_factor"].get<std::vector<float>>(); r.long_factors = s["long_factor"].get<std::vector<float>>();
      const double f = double(c.context_tokens) / r.original_context_tokens; r.attention_factor = float(std::sqrt(1 + std::log(f) / std::log(double(r.original_context_tokens)))); }
  }
  c.ropes = {r};
  if (t == "llama") { c.query_key_value_bias = c.attention_output_bias = j.value("attention_bias", false); c.feed_forward_bias = j.value("mlp_bias", false); }
  if (t == "mistral" || t == "phi3") for (auto& l : c.layers) l.window_tokens = j["sliding_window"];
  if (t == "qwen2") c.query_key_value_bias = true;
  if (t.starts_with("qwen3") || t == "gemma3_text") c.query_key_norm = QueryKeyNorm::kPerHead;
  if (t == "olmo2") { c.query_key_norm = QueryKeyNorm::kWhole; c.norms = NormPlacement::kAfter; }
  if (t.starts_with("gemma")) {
    c.activation = Activation::kGeluTanh; c.norms = NormPlacement::kBoth; c.norm_weight_offset = 1;
    c.embedding_multiplier = std::sqrt(float(c.hidden_size)); c.attention_scale = 1 / std::sqrt(j["query_pre_attn_scalar"].get<float>());
    if (t == "gemma2") { c.attention_softcap = j["attn_logit_softcapping"]; c.logit_softcap = j["final_logit_softcapping"];
      for (std::size_t i = 0; i < c.layers.size(); i += 2) c.layers[i].window_tokens = j["sliding_window"]; }
    else { RopeConfig local; local.theta = j["rope_local_base_freq"]; c.ropes.push_back(local);
      for (std::size_t i = 0; i < c.layers.size(); ++i) if ((i + 1) % j["sliding_window_pattern"].get<std::size_t>() != 0) { c.layers[i].window_tokens = j["sliding_window"]; c.layers[i].rope = 1; } }
  }
  if (t == "smollm3") for (std::size_t i = 0; i < c.layers.size(); ++i) if (j["no_rope_layers"][i] == 0) c.layers[i].rope = LayerConfig::kNoRope;
  if (t == "granite") { c.attention_scale = j["attention_multiplier"]; c.embedding_multiplier = j["embedding_multiplier"]; c.residual_multiplier = j["residual_multiplier"]; c.logit_multiplier = 1 / j["logits_scaling"].get<float>(); }
  if (t == "mixtral") { c.experts = {j["num_local_experts"], j["num_experts_per_tok"], c.intermediate_size, true}; for (auto& l : c.layers) l.has_experts = true; }
  if (t == "qwen3_moe") { c.experts = {j["num_experts"], j["num_experts_per_tok"], j["moe_intermediate_size"], j["norm_topk_prob"]};
    for (std::size_t i = 0; i < c.layers.size(); ++i) { c.layers[i].has_experts = true; for (auto& d : j["mlp_only_layers"]) if (d == i) c.layers[i].has_experts = false; } }
  return c;
}
}
