// What GGUF's keys mean: the configuration of a decoder.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "model/config_limits.h"
#include "model/foreign_text.h"
#include "model/gguf.h"
#include "model/gguf_architectures.h"
#include "model/gguf_keys.h"
#include "model/gguf_rope.h"
#include "model/gguf_tokens.h"

namespace paceline::model {
namespace {

constexpr std::string_view kWindow = "attention.sliding_window";
constexpr std::string_view kWindowPattern = "attention.sliding_window_pattern";

Result<const GgufArchitecture*> find_architecture(const GgufFile& file) {
  constexpr const char* kKey = "general.architecture";
  PACELINE_ASSIGN_OR_RETURN(const std::string given, file.string_value(kKey));
  std::vector<std::string_view> names;
  for (const GgufArchitecture& row : gguf_architectures()) {
    if (row.name == given) return &row;
    names.push_back(row.name);
  }
  return fail(ErrorCode::kUnimplemented, "{}: metadata \"{}\": is {}, expected one of {}",
              file.name(), kKey, in_quotes(given), fmt::join(names, ", "));
}

/// Keys of computations that the graph has no place for: leaving them out would give other logits.
Status refuse_unbuilt(const GgufArchitecture& architecture, const GgufKeys& keys) {
  for (const char* key :
       {"expert_shared_count", "expert_shared_feed_forward_length", "expert_group_count",
        "leading_dense_block_count", "nextn_predict_layers"}) {
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t value, keys.size_or_none(key, UINT32_MAX));
    if (value != 0) return keys.wrong(key, value, "0", ErrorCode::kUnimplemented);
  }
  const auto refuse_other_than = [&](const char* key, float expected) -> Status {
    PACELINE_ASSIGN_OR_RETURN(const float value, keys.nonzero_or(key, expected));
    if (value == expected) return {};
    return keys.wrong(key, value, fmt::format("{} or none", expected), ErrorCode::kUnimplemented);
  };
  PACELINE_RETURN_IF_ERROR(refuse_other_than("expert_weights_scale", 1.0F));
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t gating,
                            keys.size_or_none("expert_gating_func", UINT32_MAX));
  if (gating > 1) {
    return keys.wrong("expert_gating_func", gating, "1 (softmax)", ErrorCode::kUnimplemented);
  }
  if (!architecture.has_multipliers) {
    for (const char* key : {"logit_scale", "residual_scale", "embedding_scale"}) {
      PACELINE_RETURN_IF_ERROR(refuse_other_than(key, 1.0F));
    }
    PACELINE_RETURN_IF_ERROR(refuse_other_than("attention.scale", 0.0F));
  }
  if (!architecture.has_softcaps) {
    PACELINE_RETURN_IF_ERROR(refuse_other_than("attn_logit_softcapping", 0.0F));
    PACELINE_RETURN_IF_ERROR(refuse_other_than("final_logit_softcapping", 0.0F));
  }
  if (!keys.has("attention.causal")) return {};
  PACELINE_ASSIGN_OR_RETURN(const bool causal,
                            keys.file().bool_value(keys.full("attention.causal")));
  return causal ? Status()
                : keys.wrong("attention.causal", causal, "true", ErrorCode::kUnimplemented);
}

Status read_sizes(const GgufKeys& keys, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto layers, keys.size("block_count", kMaxLayers));
  config.layers.resize(layers);
  PACELINE_ASSIGN_OR_RETURN(config.hidden_size, keys.size("embedding_length", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.intermediate_size, keys.size("feed_forward_length", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.context_tokens, keys.size("context_length", kMaxContext));
  PACELINE_ASSIGN_OR_RETURN(config.attention_heads, keys.size("attention.head_count", kMaxHeads));
  PACELINE_ASSIGN_OR_RETURN(
      config.key_value_heads,
      keys.size_or("attention.head_count_kv", kMaxHeads, config.attention_heads));
  PACELINE_ASSIGN_OR_RETURN(config.rms_norm_epsilon,
                            keys.positive("attention.layer_norm_rms_epsilon"));
  return {};
}

Status read_head_size(const GgufKeys& keys, DecoderConfig& config) {
  if (!keys.has("attention.key_length") && config.hidden_size % config.attention_heads != 0) {
    return keys.wrong("attention.head_count", config.attention_heads,
                      fmt::format("a divisor of the embedding length {}", config.hidden_size));
  }
  if (config.attention_heads % config.key_value_heads != 0) {
    return keys.wrong("attention.head_count_kv", config.key_value_heads,
                      fmt::format("a divisor of the {} attention heads", config.attention_heads));
  }
  const std::uint32_t divided = config.hidden_size / config.attention_heads;
  PACELINE_ASSIGN_OR_RETURN(config.head_size,
                            keys.size_or("attention.key_length", kMaxSize, divided));
  PACELINE_ASSIGN_OR_RETURN(const auto value_size,
                            keys.size_or("attention.value_length", kMaxSize, config.head_size));
  if (value_size == config.head_size) return {};
  return keys.wrong("attention.value_length", value_size,
                    fmt::format("the key length {}", config.head_size), ErrorCode::kUnimplemented);
}

/// Which layers slide, where there is a window.
Result<std::vector<bool>> sliding_layers(const GgufArchitecture& architecture, const GgufKeys& keys,
                                         std::size_t layers) {
  if (architecture.windows == GgufWindows::kAll) return std::vector<bool>(layers, true);
  if (keys.file().is_array(keys.full(kWindowPattern))) {
    PACELINE_ASSIGN_OR_RETURN(auto slides, keys.file().bool_array(keys.full(kWindowPattern)));
    if (slides.size() == layers) return slides;
    return keys.wrong(kWindowPattern, fmt::format("an array of {}", slides.size()),
                      fmt::format("one of each of {} layers", layers));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t period,
                            keys.size_or(kWindowPattern, kMaxLayers, architecture.window_period));
  std::vector<bool> slides;
  for (std::size_t i = 0; i < layers; ++i) slides.push_back((i + 1) % period != 0);
  return slides;
}

Status read_layers(const GgufArchitecture& architecture, const GgufKeys& keys,
                   DecoderConfig& config) {
  auto& layers = config.layers;
  std::uint32_t window = architecture.window_tokens;
  if (keys.has(kWindow)) {
    PACELINE_ASSIGN_OR_RETURN(window, keys.size_or_none(kWindow, kMaxContext));
  }
  if (window > 0 && architecture.windows == GgufWindows::kNone) {
    return keys.wrong(kWindow, window, "none", ErrorCode::kUnimplemented);
  }
  if (window > 0) {
    PACELINE_ASSIGN_OR_RETURN(const auto slides, sliding_layers(architecture, keys, layers.size()));
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].window_tokens = slides[i] ? window : 0;
  }
  const std::uint32_t period = architecture.no_rope_period;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (period != 0 && (i + 1) % period == 0) layers[i].rope = LayerConfig::kNoRope;
  }
  return {};
}

Status read_experts(const GgufArchitecture& architecture, const GgufKeys& keys,
                    DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(config.experts.count, keys.size_or_none("expert_count", kMaxExperts));
  const bool has_some = config.experts.count > 0;
  if (has_some && architecture.experts == GgufExperts::kNone) {
    return keys.wrong("expert_count", config.experts.count, "no experts",
                      ErrorCode::kUnimplemented);
  }
  if (!has_some) {
    if (architecture.experts != GgufExperts::kAlways) return {};
    return keys.wrong("expert_count", 0, "1 or more");
  }
  PACELINE_ASSIGN_OR_RETURN(config.experts.used,
                            keys.size("expert_used_count", config.experts.count));
  PACELINE_ASSIGN_OR_RETURN(
      config.experts.intermediate_size,
      keys.size_or("expert_feed_forward_length", kMaxSize, config.intermediate_size));
  for (LayerConfig& layer : config.layers) layer.has_experts = true;
  return {};
}

Status read_multipliers(const GgufArchitecture& architecture, const GgufKeys& keys,
                        DecoderConfig& config) {
  if (architecture.scales_embedding) {
    config.embedding_multiplier = std::sqrt(static_cast<float>(config.hidden_size));
  }
  if (architecture.layers_of_hidden_scale == config.layers.size()) {
    config.attention_scale =
        1.0F / std::sqrt(static_cast<float>(config.hidden_size / config.attention_heads));
  }
  if (architecture.has_softcaps) {
    PACELINE_ASSIGN_OR_RETURN(
        config.attention_softcap,
        keys.nonzero_or("attn_logit_softcapping", architecture.attention_softcap));
    PACELINE_ASSIGN_OR_RETURN(config.logit_softcap, keys.nonzero_or("final_logit_softcapping",
                                                                    architecture.logit_softcap));
  }
  if (!architecture.has_multipliers) return {};
  PACELINE_ASSIGN_OR_RETURN(const float divisor, keys.positive("logit_scale"));
  config.logit_multiplier = 1.0F / divisor;
  PACELINE_ASSIGN_OR_RETURN(config.residual_multiplier, keys.nonzero_or("residual_scale", 1.0F));
  PACELINE_ASSIGN_OR_RETURN(config.embedding_multiplier, keys.nonzero_or("embedding_scale", 1.0F));
  PACELINE_ASSIGN_OR_RETURN(config.attention_scale, keys.nonzero_or("attention.scale", 0.0F));
  return {};
}

/// Biases are not among the keys; the first layer's tensors stand for all, and the tensor plan
/// finds what others have more or less.
void find_biases(const GgufFile& file, DecoderConfig& config) {
  const auto has_any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) {
      return file.find(fmt::format("blk.0.{}.bias", name)).has_value();
    });
  };
  config.query_key_value_bias = has_any({"attn_q", "attn_k", "attn_v", "attn_qkv"});
  config.attention_output_bias = has_any({"attn_output"});
  config.feed_forward_bias = has_any({"ffn_gate", "ffn_up", "ffn_down"});
}

Status read_tokens(const GgufFile& file, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const TensorInfo* embedding, file.find("token_embd.weight"));
  if (embedding->shape.size() != 2 || embedding->shape[0] > kMaxVocabulary) {
    return fail(ErrorCode::kDataLoss,
                "{}: tensor \"token_embd.weight\": has {} dimensions, expected 2 (a row per token)",
                file.name(), embedding->shape.size());
  }
  config.vocabulary_size = static_cast<std::uint32_t>(embedding->shape[0]);
  config.tied_head = !file.find("output.weight").has_value();
  const std::uint64_t tokens = config.vocabulary_size;
  PACELINE_ASSIGN_OR_RETURN(config.bos_token_id,
                            gguf_token_id(file, "tokenizer.ggml.bos_token_id", tokens));
  PACELINE_ASSIGN_OR_RETURN(config.padding_token_id,
                            gguf_token_id(file, "tokenizer.ggml.padding_token_id", tokens));
  PACELINE_ASSIGN_OR_RETURN(config.eos_token_ids, gguf_ending_tokens(file, tokens));
  return {};
}

}  // namespace

Result<DecoderConfig> GgufFile::decoder_config() const {
  DecoderConfig config;
  PACELINE_ASSIGN_OR_RETURN(const GgufArchitecture* architecture, find_architecture(*this));
  config.architecture = architecture->name;
  config.interleaved_rope_rows = architecture->interleaved_rope_rows;
  config.activation = architecture->activation;
  config.norms = architecture->norms;
  config.query_key_norm = architecture->query_key_norm;
  if (has("general.name")) {
    PACELINE_ASSIGN_OR_RETURN(config.name, string_value("general.name"));
  }
  const GgufKeys keys(*this, config.architecture + ".");
  PACELINE_RETURN_IF_ERROR(refuse_unbuilt(*architecture, keys));
  PACELINE_RETURN_IF_ERROR(read_sizes(keys, config));
  PACELINE_RETURN_IF_ERROR(read_head_size(keys, config));
  PACELINE_RETURN_IF_ERROR(read_layers(*architecture, keys, config));
  PACELINE_RETURN_IF_ERROR(read_experts(*architecture, keys, config));
  PACELINE_RETURN_IF_ERROR(read_multipliers(*architecture, keys, config));
  PACELINE_RETURN_IF_ERROR(read_gguf_ropes(*architecture, keys, config));
  find_biases(*this, config);
  PACELINE_RETURN_IF_ERROR(read_tokens(*this, config));
  return config;
}

}  // namespace paceline::model
