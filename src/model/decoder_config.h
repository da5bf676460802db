// The configuration of a decoder as the graph builder sees it: numbers and flags, no architecture
// names. A reader fills it from a source's metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::model {

enum class Activation { kSilu, kGeluTanh };

/// Where RMS norms stand around attention and feed-forward f.
enum class NormPlacement {
  kBefore,  ///< x + f(norm(x)): Llama and most others
  kAfter,   ///< x + norm(f(x)): OLMo 2
  kBoth,    ///< x + norm(f(norm(x))): Gemma 2 and 3
};

/// Norms of queries and keys before rope.
enum class QueryKeyNorm {
  kNone,
  kPerHead,  ///< over each head's D, one weight [D] for all heads: Qwen3, Gemma 3
  kWhole,    ///< over all heads at once, a weight [heads * D]: OLMo 2
};

/// How the angles of rope grow beyond the trained length; names and formulas as in Hugging Face's
/// modeling_rope_utils.
enum class RopeScaling { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope };

struct RopeConfig {
  float theta = 10000.0F;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;
  std::uint32_t original_context_tokens = 0;  ///< where scaling needs it; dynamic: the trained
  float low_frequency_factor = 1.0F;          ///< llama3
  float high_frequency_factor = 4.0F;         ///< llama3
  float beta_fast = 32.0F;                    ///< yarn
  float beta_slow = 1.0F;                     ///< yarn
  bool truncate = true;                       ///< yarn: whole numbers bound the ramp
  float attention_factor = 1.0F;              ///< yarn, longrope: multiplies cosine and sine
  std::vector<float> short_factors;           ///< longrope: one divisor of each frequency
  std::vector<float> long_factors;            ///< longrope: beyond original_context_tokens
  /// A GGUF's own divisors (rope_freqs.weight), in place of llama3's formula; empty: none.
  std::vector<float> divisors;

  bool operator==(const RopeConfig&) const = default;
};

/// What may differ from layer to layer.
struct LayerConfig {
  static constexpr std::int32_t kNoRope = -1;
  std::uint32_t window_tokens = 0;  ///< a query sees itself and the window - 1 before; 0: all
  std::int32_t rope = 0;            ///< index into DecoderConfig::ropes, or kNoRope (SmolLM3)
  bool has_experts = false;         ///< a mixture of experts instead of one feed-forward

  bool operator==(const LayerConfig&) const = default;
};

/// A mixture of experts: softmax over all, the best `used` of `count`.
struct ExpertConfig {
  std::uint32_t count = 0;  ///< 0: the model has none
  std::uint32_t used = 0;
  std::uint32_t intermediate_size = 0;
  bool normalized = true;  ///< the chosen experts' weights are scaled to a sum of 1

  bool operator==(const ExpertConfig&) const = default;
};

struct DecoderConfig {
  std::string architecture;  ///< the source's name for it, for messages and config.json only
  std::string name;          ///< the model's own name, may be empty
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;  ///< of layers without experts
  std::uint32_t attention_heads = 0;
  std::uint32_t key_value_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_tokens = 0;  ///< the length it was trained for
  std::vector<LayerConfig> layers;

  Activation activation = Activation::kSilu;
  NormPlacement norms = NormPlacement::kBefore;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  float rms_norm_epsilon = 1e-5F;
  float norm_weight_offset = 0.0F;  ///< added to each stored norm weight (Gemma's HF files: 1)
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool feed_forward_bias = false;
  ExpertConfig experts;

  /// Query and key rows are stored so that the pairs which rope turns lie side by side (rows 2i and
  /// 2i + 1 of a head; some GGUFs), not half a head apart.
  bool interleaved_rope_rows = false;
  std::uint32_t rope_dimensions = 0;  ///< of head_size; the rest is passed through
  std::vector<RopeConfig> ropes;      ///< at least one; Gemma 3 has one of global, one of local

  float attention_scale = 0.0F;    ///< of q*k; 0: 1 / sqrt(head_size)
  float attention_softcap = 0.0F;  ///< c * tanh(scores / c); 0: none
  float logit_softcap = 0.0F;      ///< 0: none
  float embedding_multiplier = 1.0F;
  float residual_multiplier = 1.0F;  ///< of what a block adds (Granite)
  float logit_multiplier = 1.0F;     ///< 1 / Granite's logits_scaling
  bool tied_head = false;            ///< the head is the embedding's matrix

  /// Matrices of F8_E4M3 are times their tensor NAME_scale_inv (or NAME_scale), one factor for this
  /// many rows and columns; 0: one factor for a row or for all, as the scales' shape says.
  bool fp8_scales = false;  ///< each such matrix has that tensor
  std::uint32_t fp8_block_rows = 0;
  std::uint32_t fp8_block_columns = 0;

  std::int64_t bos_token_id = -1;      ///< -1: none
  std::int64_t padding_token_id = -1;  ///< -1: none
  std::vector<std::int64_t> eos_token_ids;

  bool operator==(const DecoderConfig&) const = default;
};

}  // namespace paceline::model
