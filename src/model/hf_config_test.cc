#include "model/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/hf_architectures.h"
#include "model/hf_config_testing.h"
#include "model/safetensors_testing.h"

namespace paceline::model {
namespace {

using Json = nlohmann::json;

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

std::vector<bool> experts(const DecoderConfig& config) {
  std::vector<bool> result;
  for (const LayerConfig& layer : config.layers) result.push_back(layer.has_experts);
  return result;
}

TEST(HfConfigTest, Llama) {
  const Json base = small_config("LlamaForCausalLM", "llama");
  const DecoderConfig config = right_config(base);
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(config.intermediate_size, 96U);
  EXPECT_EQ(config.attention_heads, 4U);
  EXPECT_EQ(config.key_value_heads, 2U);
  EXPECT_EQ(config.head_size, 16U);
  EXPECT_EQ(config.rope_dimensions, 16U);
  EXPECT_EQ(config.vocabulary_size, 100U);
  EXPECT_EQ(config.context_tokens, 512U);
  EXPECT_EQ(config.layers.size(), 4U);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-5F);
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_EQ(config.norms, NormPlacement::kBefore);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(config.norm_weight_offset, 0.0F);
  EXPECT_FALSE(config.query_key_value_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_FALSE(config.feed_forward_bias);
  EXPECT_FALSE(config.interleaved_rope_rows);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.attention_scale, 0.0F);
  EXPECT_EQ(config.experts.count, 0U);
  ASSERT_EQ(config.ropes.size(), 1U);
  EXPECT_EQ(config.ropes[0].theta, 10000.0F);
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{0, 0, 0, 0}));

  EXPECT_EQ(right_config(base, R"({"num_key_value_heads": null})").key_value_heads, 4U);
  EXPECT_EQ(right_config(base, R"({"head_dim": 32})").head_size, 32U);
  EXPECT_TRUE(right_config(base, R"({"tie_word_embeddings": true})").tied_head);
  const DecoderConfig biased = right_config(base, R"({"attention_bias": true, "mlp_bias": true})");
  EXPECT_TRUE(biased.query_key_value_bias);
  EXPECT_TRUE(biased.attention_output_bias);
  EXPECT_TRUE(biased.feed_forward_bias);
}

TEST(HfConfigTest, MistralHasAWindowUnlessItIsNull) {
  Json base = small_config("MistralForCausalLM", "mistral");
  EXPECT_EQ(windows(right_config(base))[3], 4096U);
  EXPECT_EQ(windows(right_config(base, R"({"sliding_window": 32})"))[0], 32U);
  base["sliding_window"] = nullptr;
  EXPECT_EQ(windows(right_config(base))[0], 0U);
}

TEST(HfConfigTest, Qwen2HasBiasesAndWindowsOnlyWhereTheyAreUsed) {
  const Json base = small_config("Qwen2ForCausalLM", "qwen2");
  const DecoderConfig config =
      right_config(base, R"({"sliding_window": 32, "use_sliding_window": false})");
  EXPECT_TRUE(config.query_key_value_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{0, 0, 0, 0}));
  EXPECT_EQ(
      windows(right_config(
          base, R"({"sliding_window": 32, "use_sliding_window": true, "max_window_layers": 3})")),
      (std::vector<std::uint32_t>{0, 0, 0, 32}));
  EXPECT_EQ(windows(right_config(base, R"({"sliding_window": 32, "use_sliding_window": true,
      "layer_types": ["sliding_attention", "full_attention", "full_attention",
                      "full_attention"]})")),
            (std::vector<std::uint32_t>{32, 0, 0, 0}));
}

TEST(HfConfigTest, Qwen3NormsEachHead) {
  const Json base = small_config("Qwen3ForCausalLM", "qwen3");
  const DecoderConfig config = right_config(base);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kPerHead);
  EXPECT_EQ(config.head_size, 128U);
  EXPECT_FALSE(config.query_key_value_bias);
  EXPECT_EQ(right_config(base, R"({"head_dim": 16})").head_size, 16U);
}

TEST(HfConfigTest, Qwen3MoeSaysWhichLayersHaveExperts) {
  const Json base = small_config("Qwen3MoeForCausalLM", "qwen3_moe");
  const std::string_view sizes =
      R"({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48})";
  const Json whole = [&] {
    Json document = base;
    document.merge_patch(Json::parse(sizes));
    return document;
  }();
  const DecoderConfig config = right_config(whole);
  EXPECT_EQ(config.experts.count, 8U);
  EXPECT_EQ(config.experts.used, 2U);
  EXPECT_EQ(config.experts.intermediate_size, 48U);
  EXPECT_FALSE(config.experts.normalized);
  EXPECT_EQ(config.head_size, 16U);
  EXPECT_EQ(experts(config), (std::vector<bool>{true, true, true, true}));
  const DecoderConfig some = right_config(
      whole, R"({"decoder_sparse_step": 2, "mlp_only_layers": [3], "norm_topk_prob": true,
                 "num_experts": null, "num_local_experts": 4})");
  EXPECT_EQ(experts(some), (std::vector<bool>{false, true, false, false}));
  EXPECT_TRUE(some.experts.normalized);
  EXPECT_EQ(some.experts.count, 4U);
}

TEST(HfConfigTest, MixtralHasExpertsEverywhere) {
  const Json base = small_config("MixtralForCausalLM", "mixtral");
  const DecoderConfig config =
      right_config(base, R"({"num_local_experts": 8, "num_experts_per_tok": 2})");
  EXPECT_EQ(experts(config), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(config.experts.intermediate_size, 96U);
  EXPECT_TRUE(config.experts.normalized);
  EXPECT_EQ(config.ropes[0].theta, 1e6F);
  EXPECT_EQ(windows(config)[0], 0U);
}

TEST(HfConfigTest, Phi3TurnsAPartOfAHead) {
  const Json base = small_config("Phi3ForCausalLM", "phi3");
  EXPECT_EQ(right_config(base, R"({"partial_rotary_factor": 0.75})").rope_dimensions, 12U);
  EXPECT_EQ(right_config(base, R"({"rope_parameters": {"rope_type": "default", "rope_theta": 10000,
                                   "partial_rotary_factor": 0.5}})")
                .rope_dimensions,
            8U);
  EXPECT_EQ(windows(right_config(base, R"({"sliding_window": 200})"))[1], 200U);
}

TEST(HfConfigTest, Gemma2) {
  const DecoderConfig config = right_config(small_config("Gemma2ForCausalLM", "gemma2"),
                                            R"({"query_pre_attn_scalar": 144, "head_dim": 32,
                                                "sliding_window": 32, "hidden_act": "none"})");
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.norms, NormPlacement::kBoth);
  EXPECT_EQ(config.norm_weight_offset, 1.0F);
  EXPECT_EQ(config.embedding_multiplier, 8.0F);
  EXPECT_FLOAT_EQ(config.attention_scale, 1.0F / 12.0F);
  EXPECT_EQ(config.attention_softcap, 50.0F);
  EXPECT_EQ(config.logit_softcap, 30.0F);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{32, 0, 32, 0}));
  EXPECT_EQ(ropes(config), (std::vector<std::int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(config.ropes.size(), 1U);
}

TEST(HfConfigTest, Gemma3HasARopeOfItsOwnWhereItSlides) {
  const Json base = small_config("Gemma3ForCausalLM", "gemma3_text");
  const DecoderConfig config =
      right_config(base, R"({"sliding_window": 32, "sliding_window_pattern": 3,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"}})");
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kPerHead);
  EXPECT_EQ(config.attention_softcap, 0.0F);
  EXPECT_EQ(config.logit_softcap, 0.0F);
  EXPECT_EQ(windows(config), (std::vector<std::uint32_t>{32, 32, 0, 32}));
  EXPECT_EQ(ropes(config), (std::vector<std::int32_t>{1, 1, 0, 1}));
  ASSERT_EQ(config.ropes.size(), 2U);
  EXPECT_EQ(config.ropes[0].theta, 1e6F);
  EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.ropes[0].factor, 8.0F);
  EXPECT_EQ(config.ropes[1].theta, 10000.0F);
  EXPECT_EQ(config.ropes[1].scaling, RopeScaling::kNone);
  const DecoderConfig newer = right_config(base, R"({"sliding_window": 32, "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 5e5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}},
                "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                                "full_attention"]})");
  EXPECT_EQ(ropes(newer), (std::vector<std::int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(newer.ropes[0].theta, 5e5F);
  EXPECT_EQ(newer.ropes[0].factor, 4.0F);
  EXPECT_EQ(newer.ropes[1].theta, 2e4F);
}

TEST(HfConfigTest, Gemma3sTextConfigMayBeShort) {
  const DecoderConfig config = right_config(Json::parse(R"({
      "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
      "eos_token_id": [1, 106], "vision_config": {"hidden_size": 1152},
      "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                      "num_hidden_layers": 34, "sliding_window": 1024,
                      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})"));
  EXPECT_EQ(config.attention_heads, 8U);
  EXPECT_EQ(config.key_value_heads, 4U);
  EXPECT_EQ(config.head_size, 256U);
  EXPECT_EQ(config.vocabulary_size, 262208U);
  EXPECT_EQ(config.context_tokens, 131072U);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.layers[4].window_tokens, 1024U);
  EXPECT_EQ(config.layers[5].window_tokens, 0U);
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{1, 106}));
}

TEST(HfConfigTest, SmolLm3LeavesRopeOutOfSomeLayers) {
  const Json base = small_config("SmolLM3ForCausalLM", "smollm3");
  const DecoderConfig config = right_config(base);
  EXPECT_EQ(ropes(config), (std::vector<std::int32_t>{0, 0, 0, LayerConfig::kNoRope}));
  EXPECT_EQ(config.ropes[0].theta, 2e6F);
  EXPECT_TRUE(config.tied_head);
  const DecoderConfig listed =
      right_config(base, R"({"no_rope_layers": [0, 1, 0, 1], "use_sliding_window": true,
                             "sliding_window": 16})");
  EXPECT_EQ(ropes(listed),
            (std::vector<std::int32_t>{LayerConfig::kNoRope, 0, LayerConfig::kNoRope, 0}));
  EXPECT_EQ(windows(listed), (std::vector<std::uint32_t>{16, 0, 16, 0}));
}

TEST(HfConfigTest, Olmo2NormsWhatABlockGives) {
  const DecoderConfig config = right_config(small_config("Olmo2ForCausalLM", "olmo2"));
  EXPECT_EQ(config.norms, NormPlacement::kAfter);
  EXPECT_EQ(config.query_key_norm, QueryKeyNorm::kWhole);
}

TEST(HfConfigTest, GranitesMultipliers) {
  const Json base = small_config("GraniteForCausalLM", "granite");
  const DecoderConfig config =
      right_config(base, R"({"attention_multiplier": 0.0078125, "embedding_multiplier": 12,
                             "residual_multiplier": 0.22, "logits_scaling": 8})");
  EXPECT_EQ(config.attention_scale, 0.0078125F);
  EXPECT_EQ(config.embedding_multiplier, 12.0F);
  EXPECT_EQ(config.residual_multiplier, 0.22F);
  EXPECT_EQ(config.logit_multiplier, 0.125F);
  EXPECT_EQ(right_config(base).attention_scale, 1.0F);
}

TEST(HfConfigTest, EveryArchitectureHasDefaultsThatParse) {
  for (const HfArchitecture& row : hf_architectures()) {
    EXPECT_TRUE(Json::parse(row.defaults).is_object()) << row.name;
  }
}

TEST(HfConfigTest, TokensThatEndATextAreTheGenerationsOrElseTheModels) {
  const std::string config =
      small_config("LlamaForCausalLM", "llama")
          .patch(Json::parse(R"([{"op": "add", "path": "/eos_token_id", "value": 2},
                                 {"op": "add", "path": "/bos_token_id", "value": 1},
                                 {"op": "add", "path": "/pad_token_id", "value": -1}])"))
          .dump();
  const auto own = parse_hf_config(config, "");
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_EQ(own->eos_token_ids, std::vector<std::int64_t>{2});
  EXPECT_EQ(own->bos_token_id, 1);
  EXPECT_EQ(own->padding_token_id, -1);
  const auto both = parse_hf_config(config, R"({"eos_token_id": [7, 8, 7], "pad_token_id": 9})");
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(both->eos_token_ids, (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(both->padding_token_id, 9);
  const auto silent = parse_hf_config(config, R"({"temperature": 0.6})");
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->eos_token_ids, std::vector<std::int64_t>{2});
  const auto wrong = parse_hf_config(config, R"({"eos_token_id": 100})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(),
            "generation_config.json: field \"eos_token_id\": is 100, expected integers of 0 to 99");
}

TEST(HfConfigTest, QuantizedWeights) {
  const Json base = small_config("LlamaForCausalLM", "llama");
  const DecoderConfig blocks =
      right_config(base, R"({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
                "activation_scheme": "dynamic", "weight_block_size": [128, 64]}})");
  EXPECT_EQ(blocks.fp8_block_rows, 128U);
  EXPECT_EQ(blocks.fp8_block_columns, 64U);
  EXPECT_TRUE(blocks.fp8_scales);
  EXPECT_FALSE(right_config(base, "{}").fp8_scales);
  const DecoderConfig rows =
      right_config(base, R"({"quantization_config": {"quant_method": "compressed-tensors",
                "format": "float-quantized", "config_groups": {"group_0": {"weights":
                {"num_bits": 8, "type": "float", "strategy": "channel"}}}}})");
  EXPECT_EQ(rows.fp8_block_rows, 0U);
  expect_refused(base, R"({"quantization_config": {"quant_method": "awq"}})",
                 "\"quantization_config.quant_method\": is \"awq\", expected fp8");
  expect_refused(base, R"({"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}})",
                 "\"quantization_config.fmt\": is \"e5m2\"");
  expect_refused(base,
                 R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 1]}})",
                 "the rows and the columns of a block");
  expect_refused(base,
                 R"({"quantization_config": {"quant_method": "compressed-tensors",
                     "format": "float-quantized", "config_groups": {"a": {"weights":
                     {"num_bits": 4, "type": "float", "strategy": "channel"}}}}})",
                 "\"quantization_config.config_groups.a.weights.num_bits\": is 4, expected 8");
}

TEST(HfConfigTest, ReadsADirectory) {
  const TestDirectory directory;
  const auto missing = read_hf_config(directory.path());
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("config.json: cannot open"), std::string::npos);
  directory.write("config.json", small_config("LlamaForCausalLM", "llama").dump());
  const auto config = read_hf_config(directory.path());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->name, directory.path().filename().string());
  directory.write("generation_config.json", "[]");
  const auto wrong = read_hf_config(directory.path());
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("generation_config.json: is an array of 0"),
            std::string::npos);
}

}  // namespace
}  // namespace paceline::model
