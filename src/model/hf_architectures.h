// The architectures whose config.json is read, a row each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "model/config_fields.h"
#include "model/decoder_config.h"

namespace paceline::model {

/// Which projections of the attention have a bias.
enum class HfBias {
  kNone,
  kAsAttentionBiasSays,  ///< all four or none
  kQueryKeyValue,        ///< three, always
};

/// Which layers look back over `sliding_window` tokens only, where `layer_types` is not heeded or
/// not there.
enum class HfWindows {
  kNone,
  kAll,            ///< where sliding_window is not null
  kAllIfUsed,      ///< the same where use_sliding_window is true
  kLastIfUsed,     ///< from max_window_layers on, where use_sliding_window is true
  kNoRopeIfUsed,   ///< those without rope, where use_sliding_window is true
  kAllButPeriodic  ///< all but every sliding_window_pattern-th
};

struct HfArchitecture {
  std::string_view name;        ///< in config.json's architectures
  std::string_view model_type;  ///< config.json's model_type
  /// What transformers assumes of fields that config.json is silent about, as JSON. A model's sizes
  /// are not among them, unless published files leave them out.
  std::string_view defaults;
  HfBias attention_bias = HfBias::kNone;
  bool has_mlp_bias = false;  ///< as mlp_bias says
  HfWindows windows = HfWindows::kNone;
  bool heeds_layer_types = false;
  bool has_partial_rotary = false;
  bool yarn_is_long_rope = false;  ///< the first files of Phi-3 call it so
  bool has_local_rope = false;     ///< sliding layers have a rope of their own
  bool has_layers_without_rope = false;
  bool is_in_text_config = false;  ///< the decoder's fields are in the object text_config
  std::string_view activation_field = "hidden_act";
  NormPlacement norms = NormPlacement::kBefore;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  /// What only this architecture has; may be null. The config's sizes and layers are there.
  Status (*read_more)(const ConfigFields& fields, DecoderConfig& config) = nullptr;
};

std::span<const HfArchitecture> hf_architectures();

}  // namespace paceline::model
