// libFuzzer target of config.json and generation_config.json, divided by a zero byte: what is
// accepted is coherent enough for a graph to be built of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t middle = std::min(text.find('\0'), size);
  const auto config =
      parse_hf_config(text.substr(0, middle), text.substr(std::min(middle + 1, size)));
  if (!config) return 0;
  PACELINE_CHECK(!config->layers.empty() && !config->ropes.empty());
  PACELINE_CHECK(config->attention_heads % config->key_value_heads == 0);
  PACELINE_CHECK(config->rope_dimensions % 2 == 0 && config->rope_dimensions <= config->head_size);
  PACELINE_CHECK(config->experts.used <= config->experts.count);
  for (const LayerConfig& layer : config->layers) {
    PACELINE_CHECK(layer.rope < static_cast<std::int32_t>(config->ropes.size()));
    PACELINE_CHECK(!layer.has_experts || config->experts.count > 0);
  }
  for (const std::int64_t id : config->eos_token_ids) {
    PACELINE_CHECK(id >= 0 && id < config->vocabulary_size);
  }
  return 0;
}
