#include "model/hf_rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/hf_config_testing.h"

namespace paceline::model {
namespace {

using Json = nlohmann::json;

Json llama() { return small_config("LlamaForCausalLM", "llama"); }

RopeConfig rope_of(std::string_view patch) {
  const DecoderConfig config = right_config(llama(), patch);
  return config.ropes.empty() ? RopeConfig() : config.ropes[0];
}

TEST(HfRopeTest, TheOlderAndTheNewerFormSayTheSame) {
  for (const std::string_view patch :
       {R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})",
        R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})",
        R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "type": "linear",
            "factor": 4}})",
        R"({"rope_parameters": {"rope_type": "linear", "factor": 4, "rope_theta": 500000}})",
        R"({"rope_theta": 5e5, "rope_parameters": {"rope_type": "linear", "factor": 4}})"}) {
    const RopeConfig rope = rope_of(patch);
    EXPECT_EQ(rope.scaling, RopeScaling::kLinear) << patch;
    EXPECT_EQ(rope.theta, 5e5F) << patch;
    EXPECT_EQ(rope.factor, 4.0F) << patch;
  }
  EXPECT_EQ(rope_of(R"({"rope_scaling": {}})").scaling, RopeScaling::kNone);
  EXPECT_EQ(rope_of(R"({"rope_scaling": {"rope_type": "default"}})").scaling, RopeScaling::kNone);
}

TEST(HfRopeTest, Dynamic) {
  const RopeConfig rope = rope_of(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})");
  EXPECT_EQ(rope.scaling, RopeScaling::kDynamic);
  EXPECT_EQ(rope.factor, 2.0F);
  EXPECT_EQ(rope.original_context_tokens, 512U);
}

TEST(HfRopeTest, Llama3) {
  const RopeConfig rope = rope_of(
      R"({"rope_scaling": {"rope_type": "llama3", "factor": 32, "low_freq_factor": 1,
          "high_freq_factor": 4, "original_max_position_embeddings": 128}})");
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.factor, 32.0F);
  EXPECT_EQ(rope.low_frequency_factor, 1.0F);
  EXPECT_EQ(rope.high_frequency_factor, 4.0F);
  EXPECT_EQ(rope.original_context_tokens, 128U);
}

TEST(HfRopeTest, Yarn) {
  const RopeConfig rope = rope_of(
      R"({"rope_scaling": {"type": "yarn", "factor": 4,
          "original_max_position_embeddings": 128}})");
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.original_context_tokens, 128U);
  EXPECT_EQ(rope.beta_fast, 32.0F);
  EXPECT_EQ(rope.beta_slow, 1.0F);
  EXPECT_TRUE(rope.truncate);
  EXPECT_FLOAT_EQ(rope.attention_factor, 0.1F * std::log(4.0F) + 1.0F);
  const RopeConfig said = rope_of(
      R"({"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 16, "beta_slow": 2,
          "attention_factor": 0.5, "truncate": false}})");
  EXPECT_EQ(said.original_context_tokens, 512U);
  EXPECT_EQ(said.beta_fast, 16.0F);
  EXPECT_EQ(said.beta_slow, 2.0F);
  EXPECT_EQ(said.attention_factor, 0.5F);
  EXPECT_FALSE(said.truncate);
  // A null is the ratio of the lengths; two magnitudes are divided.
  Json document = llama();
  document["rope_scaling"] = Json::parse(
      R"({"type": "yarn", "factor": null, "original_max_position_embeddings": 64, "mscale": 1.0,
          "mscale_all_dim": 0.5})");
  const DecoderConfig ratio = right_config(document);
  EXPECT_EQ(ratio.ropes[0].factor, 8.0F);
  EXPECT_FLOAT_EQ(ratio.ropes[0].attention_factor,
                  (0.1F * std::log(8.0F) + 1.0F) / (0.05F * std::log(8.0F) + 1.0F));
}

TEST(HfRopeTest, LongRopeOfPhi3UnderEachOfItsNames) {
  const Json base = small_config("Phi3ForCausalLM", "phi3");
  for (const std::string type : {"longrope", "su", "yarn"}) {
    const DecoderConfig config = right_config(
        base, R"({"max_position_embeddings": 4096, "original_max_position_embeddings": 1024,
                  "partial_rotary_factor": 0.25, "rope_scaling": {"type": ")" +
                  type + R"(", "short_factor": [1, 1.5], "long_factor": [2, 8]}})");
    ASSERT_EQ(config.ropes.size(), 1U);
    const RopeConfig& rope = config.ropes[0];
    EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
    EXPECT_EQ(rope.original_context_tokens, 1024U);
    EXPECT_EQ(rope.factor, 4.0F);
    EXPECT_FLOAT_EQ(rope.attention_factor, std::sqrt(1.0F + std::log(4.0F) / std::log(1024.0F)));
    EXPECT_EQ(rope.short_factors, (std::vector<float>{1, 1.5}));
    EXPECT_EQ(rope.long_factors, (std::vector<float>{2, 8}));
  }
  // What the root says goes before what the rope says; nothing stretched has the factor 1.
  const DecoderConfig same =
      right_config(base, R"({"original_max_position_embeddings": 512, "partial_rotary_factor": 0.25,
                "rope_scaling": {"type": "longrope", "original_max_position_embeddings": 8,
                                 "short_factor": [1, 1], "long_factor": [1, 1]}})");
  EXPECT_EQ(same.ropes[0].original_context_tokens, 512U);
  EXPECT_EQ(same.ropes[0].attention_factor, 1.0F);
}

TEST(HfRopeTest, WhatIsRefused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"rope_scaling": {"rope_type": "mrope"}})",
       "\"rope_scaling.rope_type\": is \"mrope\", expected default, linear"},
      {R"({"rope_scaling": {"type": 3}})", "\"rope_scaling.type\": is 3, expected a string"},
      {R"({"rope_scaling": {"type": "linear", "rope_type": "yarn"}})",
       "\"rope_scaling.type\": is \"linear\", expected the same as rope_type"},
      {R"({"rope_scaling": "linear"})", "\"rope_scaling\": is \"linear\", expected an object"},
      {R"({"rope_scaling": {"type": "linear"}})", "\"rope_scaling.factor\": is missing"},
      {R"({"rope_scaling": {"type": "linear", "factor": 0}})", "factor\": is 0, expected a number"},
      {R"({"rope_scaling": {"type": "linear", "factor": "2"}})", "factor\": is \"2\""},
      {R"({"rope_scaling": {"type": "linear", "factor": 1e300}})", "factor\": is 1e+300"},
      {R"({"rope_scaling": {"type": "yarn"}})", "factor\": is missing, expected a number or null"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1}})",
       "\"rope_scaling.high_freq_factor\": is missing"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
           "high_freq_factor": 4}})",
       "expected more than low_freq_factor"},
      {R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}})",
       "\"rope_scaling.short_factor\": is an array of 1, expected 8 numbers"},
      {R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 0]}})", "item 1 is 0"},
      {R"({"rope_scaling": {"type": "linear", "factor": 2},
           "rope_parameters": {"rope_type": "linear", "factor": 3}})",
       "expected nothing beside rope_parameters"},
      {R"({"rope_theta": 1e4, "rope_parameters": {"rope_type": "default", "rope_theta": 2e4}})",
       "\"rope_theta\": is 10000.0, expected 20000 as the rope's own"},
      {R"({"rope_theta": -1})", "\"rope_theta\": is -1"},
      {R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}})",
       "\"rope_parameters.full_attention\": is an object, expected one rope for all layers"},
      {R"({"partial_rotary_factor": 0.5})", "expected 1, as LlamaForCausalLM has it"},
      {R"({"partial_rotary_factor": 1.5})", "expected 1 or less"},
      {R"({"head_dim": 15})", "\"head_dim\": is 15, expected an even number"},
  };
  for (const auto& [patch, expected] : cases) expect_refused(llama(), patch, expected);
  expect_refused(small_config("Phi3ForCausalLM", "phi3"), R"({"partial_rotary_factor": 0.01})",
                 "expected an even number of the head's 16 elements to turn, not 0");
  const Json gemma = small_config("Gemma3ForCausalLM", "gemma3_text");
  expect_refused(gemma, R"({"rope_parameters": {"rope_type": "default"}})",
                 "\"rope_parameters.full_attention\": is missing, expected an object");
  expect_refused(gemma,
                 R"({"rope_parameters": {"full_attention": {"partial_rotary_factor": 0.5},
                                         "sliding_attention": {}}})",
                 "\"rope_parameters.full_attention.partial_rotary_factor\": is 0.5");
}

}  // namespace
}  // namespace paceline::model
