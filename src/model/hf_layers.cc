#include "model/hf_layers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/config_limits.h"

namespace paceline::model {
namespace {

Status read_layers_without_rope(const ConfigFields& fields, DecoderConfig& config) {
  auto& layers = config.layers;
  if (!fields.has("no_rope_layers")) {
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t interval,
                              fields.size("no_rope_layer_interval", kMaxLayers));
    for (std::size_t i = interval - 1; i < layers.size(); i += interval) {
      layers[i].rope = LayerConfig::kNoRope;
    }
    return {};
  }
  // In spite of its name a 1 says that the layer has rope.
  PACELINE_ASSIGN_OR_RETURN(const auto has_rope, fields.integers("no_rope_layers", 1));
  if (has_rope.size() < layers.size()) {
    return fields.wrong("no_rope_layers",
                        fmt::format("one item of each of {} layers", layers.size()));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (has_rope[i] == 0) layers[i].rope = LayerConfig::kNoRope;
  }
  return {};
}

/// The tokens that a sliding layer sees; 0: the fields switch the window off.
Result<std::uint32_t> read_window(HfWindows rule, const ConfigFields& fields) {
  const bool has_switch = rule == HfWindows::kAllIfUsed || rule == HfWindows::kLastIfUsed ||
                          rule == HfWindows::kNoRopeIfUsed;
  if (rule == HfWindows::kNone) return 0;
  if (has_switch) {
    PACELINE_ASSIGN_OR_RETURN(const bool is_used, fields.flag_or("use_sliding_window", false));
    if (!is_used) return 0;
  }
  if (rule == HfWindows::kAllButPeriodic) return fields.size("sliding_window", kMaxContext);
  return fields.size_or("sliding_window", kMaxContext, 0);
}

/// Which layers slide by the rule alone, where there is a window.
Result<std::vector<bool>> sliding_layers(HfWindows rule, const ConfigFields& fields,
                                         const DecoderConfig& config) {
  const std::size_t count = config.layers.size();
  std::vector<bool> slides(count, rule == HfWindows::kAll || rule == HfWindows::kAllIfUsed);
  if (rule == HfWindows::kLastIfUsed) {
    PACELINE_ASSIGN_OR_RETURN(const auto begin,
                              fields.integers("max_window_layers", std::int64_t{kMaxContext}));
    const auto first = begin.empty() ? count : static_cast<std::size_t>(begin.front());
    for (std::size_t i = first; i < count; ++i) slides[i] = true;
  } else if (rule == HfWindows::kNoRopeIfUsed) {
    for (std::size_t i = 0; i < count; ++i) {
      slides[i] = config.layers[i].rope == LayerConfig::kNoRope;
    }
  } else if (rule == HfWindows::kAllButPeriodic) {
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t period,
                              fields.size("sliding_window_pattern", kMaxLayers));
    for (std::size_t i = 0; i < count; ++i) slides[i] = (i + 1) % period != 0;
  }
  return slides;
}

Result<std::vector<bool>> listed_layers(const ConfigFields& fields, std::size_t count) {
  PACELINE_ASSIGN_OR_RETURN(const auto types, fields.texts("layer_types"));
  std::vector<bool> slides;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return fields.wrong("layer_types", "full_attention and sliding_attention only",
                          ErrorCode::kUnimplemented);
    }
    slides.push_back(type == "sliding_attention");
  }
  if (slides.size() == count) return slides;
  return fields.wrong("layer_types", fmt::format("one type of each of {} layers", count));
}

}  // namespace

Status read_hf_layers(const HfArchitecture& architecture, const ConfigFields& fields,
                      DecoderConfig& config) {
  if (architecture.has_layers_without_rope) {
    PACELINE_RETURN_IF_ERROR(read_layers_without_rope(fields, config));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t window, read_window(architecture.windows, fields));
  std::vector<bool> slides(config.layers.size(), false);
  if (window > 0) {
    PACELINE_ASSIGN_OR_RETURN(slides, sliding_layers(architecture.windows, fields, config));
  }
  if (fields.has("layer_types")) {
    PACELINE_ASSIGN_OR_RETURN(const auto listed, listed_layers(fields, slides.size()));
    const bool any = std::find(listed.begin(), listed.end(), true) != listed.end();
    const bool contradicts = architecture.heeds_layer_types ? any && window == 0 : listed != slides;
    if (contradicts) {
      return fields.wrong("layer_types", "what the fields of the sliding window say");
    }
    slides = listed;
  }
  for (std::size_t i = 0; i < slides.size(); ++i) {
    if (!slides[i]) continue;
    config.layers[i].window_tokens = window;
    if (architecture.has_local_rope) config.layers[i].rope = 1;
  }
  return {};
}

}  // namespace paceline::model
