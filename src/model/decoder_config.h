// The configuration of a decoder as the graph builder sees it: numbers and flags, no architecture
// names. A reader fills it from a source's metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::model {

struct DecoderConfig {
  std::string architecture;  ///< the source's name for it, for messages and config.json only
  std::string name;          ///< the model's own name, may be empty
  std::uint32_t layers = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t attention_heads = 0;
  std::uint32_t key_value_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_tokens = 0;  ///< the length it was trained for
  float rms_norm_epsilon = 1e-5F;
  float rope_theta = 10000.0F;
  std::uint32_t rope_dimensions = 0;  ///< of head_size; the rest is passed through
  float rope_linear_factor = 1.0F;    ///< positions are divided by it
  bool tied_head = false;             ///< the head is the embedding's matrix

  std::int64_t bos_token_id = -1;      ///< -1: none
  std::int64_t padding_token_id = -1;  ///< -1: none
  std::vector<std::int64_t> eos_token_ids;
};

}  // namespace paceline::model
