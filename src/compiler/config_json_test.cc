#include "compiler/config_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/golden_model_testing.h"
#include "model/hf_config.h"

namespace paceline::compiler {
namespace {

using model::DecoderConfig;

DecoderConfig read_back(const DecoderConfig& config) {
  auto read = model::parse_hf_config(config_json(config), generation_config_json(config));
  EXPECT_TRUE(read) << read.error().message() << config_json(config);
  return read ? *read : DecoderConfig();
}

class ConfigJsonTest : public testing::TestWithParam<std::string> {};

TEST_P(ConfigJsonTest, SaysAllThatTheConfigurationHas) {
  DecoderConfig config = golden_config(GetParam());
  DecoderConfig again = read_back(config);
  config.name.clear();
  again.name.clear();
  EXPECT_NEAR(again.attention_scale, config.attention_scale, 1e-6F);  // a root and its square
  EXPECT_NEAR(again.logit_multiplier, config.logit_multiplier, 1e-6F);
  again.attention_scale = config.attention_scale;
  again.logit_multiplier = config.logit_multiplier;
  EXPECT_TRUE(again == config) << config_json(config);
}

INSTANTIATE_TEST_SUITE_P(All, ConfigJsonTest, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST(ConfigJsonTest, AGgufsNameForALlamaMayMeanOthers) {
  DecoderConfig config = golden_config("llama_linear");
  config.architecture = "llama";
  EXPECT_EQ(nlohmann::json::parse(config_json(config))["model_type"], "llama");
  config.experts = {4, 2, 16, true};
  EXPECT_EQ(nlohmann::json::parse(config_json(config))["model_type"], "mixtral");
  DecoderConfig sliding = golden_config("mistral");
  sliding.architecture = "llama";
  EXPECT_EQ(nlohmann::json::parse(config_json(sliding))["model_type"], "mistral");
  EXPECT_EQ(read_back(sliding).layers[0].window_tokens, 16U);
}

TEST(ConfigJsonTest, AGgufsDivisorsAreFactorsOfAllLengths) {
  DecoderConfig config = golden_config("llama_linear");
  config.ropes[0] = {};
  config.ropes[0].divisors.assign(8, 2.5F);
  const DecoderConfig again = read_back(config);
  EXPECT_EQ(again.ropes[0].short_factors, config.ropes[0].divisors);
  EXPECT_EQ(again.ropes[0].long_factors, config.ropes[0].divisors);
  EXPECT_EQ(again.ropes[0].attention_factor, 1.0F);
}

TEST(ConfigJsonTest, OneEndOrSeveral) {
  DecoderConfig config = golden_config("llama");
  EXPECT_EQ(nlohmann::json::parse(generation_config_json(config))["eos_token_id"], 2);
  config.eos_token_ids = {2, 7};
  EXPECT_EQ(nlohmann::json::parse(generation_config_json(config))["eos_token_id"],
            (std::vector<int>{2, 7}));
}

}  // namespace
}  // namespace paceline::compiler
