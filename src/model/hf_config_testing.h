// Configurations for tests: the fields of published models, and changes of them.
//
// Not part of the product.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/hf_config.h"

namespace paceline::model {

/// A small model of the architecture, with no field that could be left out.
inline nlohmann::json small_config(std::string_view architecture, std::string_view model_type) {
  return {{"architectures", {architecture}},
          {"model_type", model_type},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 100},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5}};
}

/// The configuration after a merge patch (null removes a field).
inline Result<DecoderConfig> config_of(nlohmann::json document, std::string_view patch = "{}") {
  document.merge_patch(nlohmann::json::parse(patch));
  return parse_hf_config(document.dump(), "");
}

inline DecoderConfig right_config(const nlohmann::json& document, std::string_view patch = "{}") {
  const auto config = config_of(document, patch);
  EXPECT_TRUE(config) << patch << ": " << config.error().message();
  return config ? *config : DecoderConfig();
}

/// Expects the error to hold the text; a document's field can be set to null with `nulls`.
inline void expect_refused(const nlohmann::json& document, std::string_view patch,
                           std::string_view expected) {
  const auto config = config_of(document, patch);
  ASSERT_FALSE(config) << patch;
  const std::string& message = config.error().message();
  EXPECT_NE(message.find(expected), std::string::npos) << patch << ": " << message;
  EXPECT_EQ(message.rfind("config.json: ", 0), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace paceline::model
