// The architectures whose GGUF files are read, a row each.
//
// A GGUF says sizes, but much of what an architecture computes is known by its name alone; that is
// what the rows hold. Norms of Gemma have their + 1 folded into the stored weights.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/decoder_config.h"

namespace paceline::model {

/// Which layers look back over attention.sliding_window tokens only.
enum class GgufWindows {
  kNone,  ///< a window is refused
  kAll,
  kAllButPeriodic  ///< as attention.sliding_window_pattern says, or all but every
                   ///< `window_period`-th
};

/// The rope of sliding layers.
enum class GgufLocalRope {
  kSame,
  kUnscaled,         ///< the same base without the scaling
  kUnscaledOwnBase,  ///< rope.freq_base_swa, 10000 unless said
};

enum class GgufExperts { kNone, kOptional, kAlways };

struct GgufArchitecture {
  std::string_view name;  ///< general.architecture
  bool interleaved_rope_rows = false;
  Activation activation = Activation::kSilu;
  NormPlacement norms = NormPlacement::kBefore;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  GgufWindows windows = GgufWindows::kNone;
  std::uint32_t window_tokens = 0;  ///< where the file does not say
  std::uint32_t window_period = 0;
  GgufLocalRope local_rope = GgufLocalRope::kSame;
  bool has_rope_divisors = false;    ///< a tensor rope_freqs.weight may be there
  bool has_long_rope = false;        ///< tensors rope_factors_*.weight alone say longrope
  std::uint32_t no_rope_period = 0;  ///< every so many-th layer has no rope; 0: all have
  bool scales_embedding = false;     ///< by the root of the hidden size
  bool has_multipliers = false;      ///< Granite's four
  float attention_softcap = 0.0F;    ///< where the file does not say
  float logit_softcap = 0.0F;        ///< where the file does not say
  bool has_softcaps = false;
  /// The model of this many layers divides scores by the root of hidden size / heads instead of
  /// the head's size: the file has no word for it.
  std::uint32_t layers_of_hidden_scale = 0;
  GgufExperts experts = GgufExperts::kNone;
};

std::span<const GgufArchitecture> gguf_architectures();

}  // namespace paceline::model
