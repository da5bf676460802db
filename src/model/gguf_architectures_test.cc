// What each architecture's keys and tensors become.
#include "model/gguf_architectures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/gguf.h"
#include "model/gguf_test_writer.h"

namespace paceline::model {
namespace {

/// A model of four layers; keys are given without the architecture's prefix.
class Model {
 public:
  explicit Model(std::string architecture) : prefix_(std::move(architecture) + ".") {
    writer_.set_string("general.architecture", prefix_.substr(0, prefix_.size() - 1));
    set("block_count", 4).set("embedding_length", 64).set("feed_forward_length", 96);
    set("context_length", 512).set("attention.head_count", 4).set("attention.head_count_kv", 2);
    set("attention.layer_norm_rms_epsilon", 1e-6F);
    add("token_embd.weight", {3, 64});
  }
  Model& set(const std::string& key, int value) {
    writer_.set_u32(prefix_ + key, static_cast<std::uint32_t>(value));
    return *this;
  }
  Model& set(const std::string& key, float value) {
    writer_.set_f32(prefix_ + key, value);
    return *this;
  }
  Model& set(const std::string& key, bool value) {
    writer_.set_bool(prefix_ + key, value);
    return *this;
  }
  Model& set(const std::string& key, const char* value) {
    writer_.set_string(prefix_ + key, value);
    return *this;
  }
  Model& add(const std::string& name, std::vector<std::uint64_t> shape, float value = 1.0F) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : shape) elements *= dimension;
    std::string bytes;
    for (std::uint64_t i = 0; i < elements; ++i) bytes += GgufTestWriter::raw(value);
    writer_.add({name, std::move(shape), 0, std::move(bytes)});
    return *this;
  }
  GgufTestWriter& writer() { return writer_; }

  Result<DecoderConfig> config() const {
    const auto file = GgufFile::from_memory("m.gguf", writer_.finish());
    if (!file) return fail(file.error());
    return (*file)->decoder_config();
  }
  DecoderConfig right_config() const {
    const auto result = config();
    EXPECT_TRUE(result) << result.error().message();
    return result ? *result : DecoderConfig();
  }
  void expect_refused(std::string_view expected) const {
    const auto result = config();
    ASSERT_FALSE(result) << expected;
    EXPECT_NE(result.error().message().find(expected), std::string::npos)
        << result.error().message();
  }

 private:
  std::string prefix_;
  GgufTestWriter writer_;
};

std::vector<std::uint32_t> windows(const DecoderConfig& config) {
  std::vector<std::uint32_t> result;
  for (const LayerConfig& layer : config.layers) result.push_back(layer.window_tokens);
  return result;
}

std::vector<std::int32_t> ropes(const DecoderConfig& config) {
  std::vector<std::int32_t> result;
  for (const LayerConfig& layer : config.layers) result.push_back(layer.rope);
  return result;
}

TEST(GgufArchitecturesTest, RowsOfQueriesAreInterleavedInTheFamilyOfLlamaOnly) {
  for (const GgufArchitecture& row : gguf_architectures()) {
    Model model{std::string(row.name)};
    model.set("logit_scale", row.has_multipliers ? 1.0F : 0.0F);
    if (row.experts == GgufExperts::kAlways) {
      model.set("expert_count", 2).set("expert_used_count", 1);
    }
    const DecoderConfig config = model.right_config();
    const bool expected = row.name == "llama" || row.name == "smollm3" || row.name == "granite";
    EXPECT_EQ(config.interleaved_rope_rows, expected) << row.name;
    EXPECT_EQ(config.architecture, row.name);
    EXPECT_EQ(config.norm_weight_offset, 0.0F) << row.name;
    EXPECT_TRUE(config.tied_head);
  }
}

TEST(GgufArchitecturesTest, LlamaWithDivisorsOfRope) {
  const DecoderConfig config = Model("llama").add("rope_freqs.weight", {8}, 4.0F).right_config();
  EXPECT_EQ(config.ropes[0].divisors, std::vector<float>(8, 4.0F));
  Model("llama").add("rope_freqs.weight", {7}).expect_refused("has the shape 7, expected 8");
  Model("llama").add("rope_freqs.weight", {8}, -1.0F).expect_refused("has a value of -1");
  Model("qwen2").add("rope_freqs.weight", {8}).expect_refused("is there, expected none in qwen2");
}

TEST(GgufArchitecturesTest, LlamaWithExpertsAndAWindow) {
  const DecoderConfig config = Model("llama")
                                   .set("expert_count", 8)
                                   .set("expert_used_count", 2)
                                   .set("attention.sliding_window", 32)
                                   .right_config();
  EXPECT_EQ(config.experts.count, 8U);
  EXPECT_EQ(config.experts.used, 2U);
  EXPECT_EQ(config.experts.intermediate_size, 96U);
  EXPECT_TRUE(config.experts.normalized);
  EXPECT_TRUE(config.layers[3].has_experts);
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{32, 32, 32, 32}));
}

TEST(GgufArchitecturesTest, Qwen2HasTheBiasesThatAreThere) {
  EXPECT_FALSE(Model("qwen2").right_config().query_key_value_bias);
  const DecoderConfig config = Model("qwen2").add("blk.0.attn_q.bias", {64}).right_config();
  EXPECT_TRUE(config.query_key_value_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_FALSE(config.feed_forward_bias);
  EXPECT_TRUE(
      Model("llama").add("blk.0.attn_output.bias", {64}).right_config().attention_output_bias);
  EXPECT_TRUE(Model("llama").add("blk.0.ffn_down.bias", {64}).right_config().feed_forward_bias);
  Model("qwen2").set("attention.sliding_window", 8).expect_refused("is 8, expected none");
}

TEST(GgufArchitecturesTest, Qwen3MoeHasExpertsOfTheirOwnSize) {
  const DecoderConfig config = Model("qwen3moe")
                                   .set("expert_count", 8)
                                   .set("expert_used_count", 2)
                                   .set("expert_feed_forward_length", 24)
                                   .right_config();
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kPerHead);
  EXPECT_EQ(config.experts.intermediate_size, 24U);
  Model("qwen3moe").expect_refused("\"qwen3moe.expert_count\": is 0, expected 1 or more");
  Model("qwen3").set("expert_count", 8).expect_refused("is 8, expected no experts");
}

TEST(GgufArchitecturesTest, Phi3StretchesByItsTensors) {
  Model model("phi3");
  model.set("rope.dimension_count", 8).set("attention.sliding_window", 200);
  model.set("rope.scaling.original_context_length", 128);
  model.add("rope_factors_short.weight", {4}, 1.0F).add("rope_factors_long.weight", {4}, 2.0F);
  const DecoderConfig config = model.right_config();
  EXPECT_EQ(config.rope_dimensions, 8U);
  EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kLongRope);
  EXPECT_EQ(config.ropes[0].original_context_tokens, 128U);
  EXPECT_EQ(config.ropes[0].short_factors, std::vector<float>(4, 1.0F));
  EXPECT_EQ(config.ropes[0].long_factors, std::vector<float>(4, 2.0F));
  EXPECT_FLOAT_EQ(config.ropes[0].attention_factor,
                  std::sqrt(1.0F + std::log(4.0F) / std::log(128.0F)));
  EXPECT_EQ(windows(config)[0], 200U);
  EXPECT_EQ(model.set("rope.scaling.attn_factor", 1.25F).right_config().ropes[0].attention_factor,
            1.25F);
  EXPECT_EQ(Model("phi3").set("attention.sliding_window", 0).right_config().ropes[0].scaling,
            RopeScaling::kNone);
  Model("llama").set("rope.scaling.type", "longrope").expect_refused("rope_factors_short.weight");
}

TEST(GgufArchitecturesTest, Gemma2) {
  const DecoderConfig config = Model("gemma2")
                                   .set("attention.key_length", 32)
                                   .set("attention.value_length", 32)
                                   .set("attention.sliding_window", 32)
                                   .set("final_logit_softcapping", 20.0F)
                                   .right_config();
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.norms, NormPlacement::kBoth);
  EXPECT_EQ(config.embedding_multiplier, 8.0F);
  EXPECT_EQ(config.attention_softcap, 50.0F);
  EXPECT_EQ(config.logit_softcap, 20.0F);
  EXPECT_EQ(config.attention_scale, 0.0F);
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{32, 0, 32, 0}));
  EXPECT_EQ(config.ropes.size(), 1U);
  EXPECT_EQ(windows(Model("gemma2").right_config())[0], 4096U);
  // The largest one divides by the share of the hidden size.
  const DecoderConfig largest = Model("gemma2")
                                    .set("block_count", 46)
                                    .set("attention.key_length", 32)
                                    .set("attention.value_length", 32)
                                    .right_config();
  EXPECT_EQ(largest.attention_scale, 0.25F);
}

TEST(GgufArchitecturesTest, Gemma3HasALocalRope) {
  Model model("gemma3");
  model.set("attention.sliding_window", 32).set("rope.freq_base", 1e6F);
  model.set("rope.scaling.type", "linear").set("rope.scaling.factor", 8.0F);
  const DecoderConfig config = model.set("attention.sliding_window_pattern", 2).right_config();
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{32, 0, 32, 0}));
  EXPECT_EQ(ropes(config), (std::vector<std::int32_t>{1, 0, 1, 0}));
  ASSERT_EQ(config.ropes.size(), 2U);
  EXPECT_EQ(config.ropes[0].theta, 1e6F);
  EXPECT_EQ(config.ropes[0].factor, 8.0F);
  EXPECT_EQ(config.ropes[1].theta, 10000.0F);
  EXPECT_EQ(config.ropes[1].scaling, RopeScaling::kNone);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kPerHead);
  EXPECT_EQ(config.logit_softcap, 0.0F);
  model.writer().set_numbers<std::uint8_t>("gemma3.attention.sliding_window_pattern",
                                           GgufType::kBool, {1, 1, 0, 1});
  EXPECT_EQ(ropes(model.right_config()), (std::vector<std::int32_t>{1, 1, 0, 1}));
  model.writer().set_numbers<std::uint8_t>("gemma3.attention.sliding_window_pattern",
                                           GgufType::kBool, {1, 1, 0});
  model.expect_refused("is an array of 3, expected one of each of 4 layers");
  const DecoderConfig unwindowed = Model("gemma3").right_config();
  EXPECT_EQ(unwindowed.ropes.size(), 1U);
}

TEST(GgufArchitecturesTest, SmolLm3LeavesRopeOutOfEveryFourthLayer) {
  EXPECT_EQ(ropes(Model("smollm3").right_config()),
            (std::vector<std::int32_t>{0, 0, 0, LayerConfig::kNoRope}));
}

TEST(GgufArchitecturesTest, Olmo2) {
  const DecoderConfig config = Model("olmo2").right_config();
  EXPECT_EQ(config.norms, NormPlacement::kAfter);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kWhole);
}

TEST(GgufArchitecturesTest, GranitesMultipliers) {
  const DecoderConfig config = Model("granite")
                                   .set("logit_scale", 8.0F)
                                   .set("residual_scale", 0.25F)
                                   .set("embedding_scale", 12.0F)
                                   .set("attention.scale", 0.0625F)
                                   .right_config();
  EXPECT_EQ(config.logit_multiplier, 0.125F);
  EXPECT_EQ(config.residual_multiplier, 0.25F);
  EXPECT_EQ(config.embedding_multiplier, 12.0F);
  EXPECT_EQ(config.attention_scale, 0.0625F);
  Model("granite").expect_refused("\"granite.logit_scale\": is missing");
}

TEST(GgufArchitecturesTest, ScalingsOfRope) {
  const auto rope = [](Model& model) { return model.right_config().ropes[0]; };
  Model old("llama");
  EXPECT_EQ(rope(old.set("rope.scale_linear", 4.0F)).factor, 4.0F);
  EXPECT_EQ(rope(old).scaling, RopeScaling::kLinear);
  Model none("llama");
  none.set("rope.scaling.type", "none").set("rope.scaling.factor", 4.0F);
  EXPECT_EQ(rope(none).scaling, RopeScaling::kNone);
  Model yarn("qwen2");
  yarn.set("rope.scaling.type", "yarn").set("rope.scaling.factor", 4.0F);
  yarn.set("rope.scaling.original_context_length", 128);
  EXPECT_EQ(rope(yarn).scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope(yarn).original_context_tokens, 128U);
  EXPECT_FLOAT_EQ(rope(yarn).attention_factor, 0.1F * std::log(4.0F) + 1.0F);
  yarn.set("rope.scaling.yarn_beta_fast", 16.0F).set("rope.scaling.yarn_attn_factor", 0.5F);
  EXPECT_EQ(rope(yarn).beta_fast, 16.0F);
  EXPECT_EQ(rope(yarn).attention_factor, 0.5F);
  Model("llama")
      .set("rope.scaling.type", "ntk")
      .expect_refused("is \"ntk\", expected none, linear, yarn or longrope");
}

TEST(GgufArchitecturesTest, WhatTheGraphHasNoPlaceForIsNamed) {
  Model("llama").set("expert_shared_count", 1).expect_refused("expert_shared_count\": is 1");
  Model("llama").set("expert_gating_func", 2).expect_refused("is 2, expected 1 (softmax)");
  Model("llama").set("expert_weights_scale", 2.5F).expect_refused("is 2.5, expected 1 or none");
  Model("llama").set("logit_scale", 2.0F).expect_refused("is 2, expected 1 or none");
  Model("llama").set("attention.scale", 2.0F).expect_refused("is 2, expected 0 or none");
  Model("llama").set("final_logit_softcapping", 2.0F).expect_refused("is 2, expected 0 or none");
  Model("llama").set("attention.causal", false).expect_refused("is false, expected true");
}

TEST(GgufArchitecturesTest, EndsOfATurnAreFoundByTheirText) {
  Model model("llama");
  model.writer().set_strings("tokenizer.ggml.tokens", {"a", "<|eot_id|>", "b"});
  model.writer().set_u32("tokenizer.ggml.eos_token_id", 2);
  EXPECT_EQ(model.right_config().eos_token_ids, (std::vector<std::int64_t>{2, 1}));
}

}  // namespace
}  // namespace paceline::model
