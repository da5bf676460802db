#include "model/hf_architectures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/config_limits.h"

namespace paceline::model {
namespace {

Status read_gemma(const ConfigFields& fields, DecoderConfig& config) {
  config.norm_weight_offset = 1.0F;
  config.embedding_multiplier = std::sqrt(static_cast<float>(config.hidden_size));
  PACELINE_ASSIGN_OR_RETURN(const float scalar, fields.positive("query_pre_attn_scalar"));
  config.attention_scale = 1.0F / std::sqrt(scalar);
  PACELINE_ASSIGN_OR_RETURN(config.attention_softcap,
                            fields.positive_or("attn_logit_softcapping", 0.0F));
  PACELINE_ASSIGN_OR_RETURN(config.logit_softcap,
                            fields.positive_or("final_logit_softcapping", 0.0F));
  PACELINE_ASSIGN_OR_RETURN(const bool both_ways,
                            fields.flag_or("use_bidirectional_attention", false));
  if (!both_ways) return {};
  return fields.wrong("use_bidirectional_attention", "false", ErrorCode::kUnimplemented);
}

Status read_granite(const ConfigFields& fields, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(config.attention_scale, fields.positive("attention_multiplier"));
  PACELINE_ASSIGN_OR_RETURN(config.embedding_multiplier, fields.positive("embedding_multiplier"));
  PACELINE_ASSIGN_OR_RETURN(config.residual_multiplier, fields.positive("residual_multiplier"));
  PACELINE_ASSIGN_OR_RETURN(const float divisor, fields.positive("logits_scaling"));
  config.logit_multiplier = 1.0F / divisor;
  return {};
}

Status read_expert_counts(const ConfigFields& fields, const char* count_field,
                          DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(config.experts.count, fields.size(count_field, kMaxExperts));
  PACELINE_ASSIGN_OR_RETURN(config.experts.used,
                            fields.size("num_experts_per_tok", config.experts.count));
  return {};
}

Status read_mixtral(const ConfigFields& fields, DecoderConfig& config) {
  PACELINE_RETURN_IF_ERROR(read_expert_counts(fields, "num_local_experts", config));
  config.experts.intermediate_size = config.intermediate_size;
  for (LayerConfig& layer : config.layers) layer.has_experts = true;
  return {};
}

Status read_qwen3_moe(const ConfigFields& fields, DecoderConfig& config) {
  const char* count = fields.gives("num_local_experts") ? "num_local_experts" : "num_experts";
  PACELINE_RETURN_IF_ERROR(read_expert_counts(fields, count, config));
  PACELINE_ASSIGN_OR_RETURN(config.experts.intermediate_size,
                            fields.size("moe_intermediate_size", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.experts.normalized, fields.flag_or("norm_topk_prob", false));
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t step,
                            fields.size("decoder_sparse_step", kMaxLayers));
  const auto layers = static_cast<std::uint32_t>(config.layers.size());
  for (std::uint32_t i = 0; i < layers; ++i) config.layers[i].has_experts = (i + 1) % step == 0;
  if (!fields.has("mlp_only_layers")) return {};
  PACELINE_ASSIGN_OR_RETURN(const auto without, fields.integers("mlp_only_layers", layers - 1));
  for (const std::int64_t i : without)
    config.layers[static_cast<std::size_t>(i)].has_experts = false;
  return {};
}

constexpr std::string_view kLlamaDefaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": null,
        "rope_theta": 10000, "tie_word_embeddings": false})";
constexpr std::string_view kMistralDefaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "sliding_window": 4096,
        "rope_theta": 10000, "tie_word_embeddings": false})";
constexpr std::string_view kMixtralDefaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000000,
        "tie_word_embeddings": false})";
constexpr std::string_view kQwen2Defaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000, "sliding_window": 4096,
        "max_window_layers": 28, "tie_word_embeddings": false})";
constexpr std::string_view kQwen3Defaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000, "sliding_window": 4096,
        "max_window_layers": 28, "tie_word_embeddings": false, "head_dim": 128})";
constexpr std::string_view kQwen3MoeDefaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000, "sliding_window": 4096,
        "tie_word_embeddings": false, "decoder_sparse_step": 1})";
constexpr std::string_view kPhi3Defaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-5, "num_key_value_heads": null,
        "rope_theta": 10000, "tie_word_embeddings": false,
        "original_max_position_embeddings": 4096})";
constexpr std::string_view kGemma2Defaults =
    R"({"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 256,
        "rope_theta": 10000, "tie_word_embeddings": true, "query_pre_attn_scalar": 256,
        "sliding_window": 4096, "sliding_window_pattern": 2, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0})";
// Published text_configs say no more than what differs from the first of the family.
constexpr std::string_view kGemma3Defaults =
    R"({"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 256,
        "rope_theta": 1000000, "rope_local_base_freq": 10000, "tie_word_embeddings": true,
        "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 6,
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
        "max_position_embeddings": 131072})";
constexpr std::string_view kSmolLm3Defaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 2000000,
        "no_rope_layer_interval": 4, "tie_word_embeddings": true})";
constexpr std::string_view kOlmo2Defaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-5, "num_key_value_heads": null,
        "rope_theta": 10000, "tie_word_embeddings": false})";
constexpr std::string_view kGraniteDefaults =
    R"({"hidden_act": "silu", "rms_norm_eps": 1e-6, "num_key_value_heads": null,
        "rope_theta": 10000, "tie_word_embeddings": false, "embedding_multiplier": 1,
        "logits_scaling": 1, "residual_multiplier": 1, "attention_multiplier": 1})";

constexpr HfArchitecture kGemma3 = {.name = "Gemma3ForCausalLM",
                                    .model_type = "gemma3_text",
                                    .defaults = kGemma3Defaults,
                                    .attention_bias = HfBias::kAsAttentionBiasSays,
                                    .windows = HfWindows::kAllButPeriodic,
                                    .heeds_layer_types = true,
                                    .has_local_rope = true,
                                    .activation_field = "hidden_activation",
                                    .norms = NormPlacement::kBoth,
                                    .query_key_norm = QueryKeyNorm::kPerHead,
                                    .read_more = read_gemma};

constexpr HfArchitecture gemma3_with_images() {
  HfArchitecture row = kGemma3;
  row.name = "Gemma3ForConditionalGeneration";
  row.model_type = "gemma3";
  row.is_in_text_config = true;
  return row;
}

constexpr std::array<HfArchitecture, 13> kArchitectures = {{
    {.name = "LlamaForCausalLM",
     .model_type = "llama",
     .defaults = kLlamaDefaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .has_mlp_bias = true},
    {.name = "MistralForCausalLM",
     .model_type = "mistral",
     .defaults = kMistralDefaults,
     .windows = HfWindows::kAll},
    {.name = "MixtralForCausalLM",
     .model_type = "mixtral",
     .defaults = kMixtralDefaults,
     .windows = HfWindows::kAll,
     .read_more = read_mixtral},
    {.name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .defaults = kQwen2Defaults,
     .attention_bias = HfBias::kQueryKeyValue,
     .windows = HfWindows::kLastIfUsed,
     .heeds_layer_types = true},
    {.name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .defaults = kQwen3Defaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .windows = HfWindows::kLastIfUsed,
     .heeds_layer_types = true,
     .query_key_norm = QueryKeyNorm::kPerHead},
    {.name = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .defaults = kQwen3MoeDefaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .windows = HfWindows::kAllIfUsed,
     .query_key_norm = QueryKeyNorm::kPerHead,
     .read_more = read_qwen3_moe},
    {.name = "Phi3ForCausalLM",
     .model_type = "phi3",
     .defaults = kPhi3Defaults,
     .windows = HfWindows::kAll,
     .has_partial_rotary = true,
     .yarn_is_long_rope = true},
    {.name = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .defaults = kGemma2Defaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .windows = HfWindows::kAllButPeriodic,
     .heeds_layer_types = true,
     .activation_field = "hidden_activation",
     .norms = NormPlacement::kBoth,
     .read_more = read_gemma},
    kGemma3,
    gemma3_with_images(),
    {.name = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .defaults = kSmolLm3Defaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .has_mlp_bias = true,
     .windows = HfWindows::kNoRopeIfUsed,
     .heeds_layer_types = true,
     .has_layers_without_rope = true},
    {.name = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .defaults = kOlmo2Defaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .norms = NormPlacement::kAfter,
     .query_key_norm = QueryKeyNorm::kWhole},
    {.name = "GraniteForCausalLM",
     .model_type = "granite",
     .defaults = kGraniteDefaults,
     .attention_bias = HfBias::kAsAttentionBiasSays,
     .has_mlp_bias = true,
     .read_more = read_granite},
}};

}  // namespace

std::span<const HfArchitecture> hf_architectures() { return kArchitectures; }

}  // namespace paceline::model
