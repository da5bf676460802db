// Plans of Hugging Face's files: fused, stacked and scaled tensors, other parts of a model.
#include "compiler/tensor_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compiler/golden_model_testing.h"
#include "compiler/tensor_plan.h"

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using model::TensorInfo;
using model::TensorType;
using testing::HasSubstr;

/// Names and shapes without values.
class NamedTensors final : public model::TensorSource {
 public:
  explicit NamedTensors(const std::string& golden) {
    const auto drawn = draw_tensors(golden);
    infos.assign(drawn->tensors().begin(), drawn->tensors().end());
  }
  const std::string& name() const override { return name_; }
  std::span<const TensorInfo> tensors() const override { return infos; }
  Status read(const TensorInfo&, std::uint64_t, std::span<std::byte>) const override { return {}; }

  TensorInfo& at(const std::string& name) {
    return *std::find_if(infos.begin(), infos.end(),
                         [&](const TensorInfo& info) { return info.name == name; });
  }
  void add(const std::string& name, std::vector<std::uint64_t> shape,
           TensorType type = TensorType::kF32) {
    infos.push_back({name, type, std::move(shape), 0});
  }

  std::vector<TensorInfo> infos;

 private:
  std::string name_ = "model";
};

PlannedTensor planned(const TensorPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.tensors.begin(), plan.tensors.end(),
                                  [&](const PlannedTensor& tensor) { return tensor.name == name; });
  EXPECT_NE(found, plan.tensors.end()) << name;
  return found == plan.tensors.end() ? PlannedTensor() : *found;
}

std::string error_of(const NamedTensors& source, const DecoderConfig& config) {
  const auto plan = plan_tensors(source, config);
  return plan ? "no error" : plan.error().message();
}

TEST(TensorNamesTest, FusedMatricesAreCutByRows) {
  const NamedTensors source("phi3");
  const TensorPlan plan = plan_tensors(source, golden_config("phi3")).value();
  const auto expect_piece = [&](const std::string& name, const std::string& stored,
                                std::uint64_t first, std::uint64_t rows) {
    const PlannedTensor tensor = planned(plan, "model.layers.1." + name);
    ASSERT_EQ(tensor.pieces.size(), 1U);
    EXPECT_EQ(tensor.pieces[0].source->name, "model.layers.1." + stored);
    EXPECT_EQ(tensor.pieces[0].first_row, first);
    EXPECT_EQ(tensor.pieces[0].rows, rows);
    EXPECT_EQ(tensor.shape[0], rows);
  };
  expect_piece("self_attn.q_proj.weight", "self_attn.qkv_proj.weight", 0, 32);
  expect_piece("self_attn.k_proj.weight", "self_attn.qkv_proj.weight", 32, 16);
  expect_piece("self_attn.v_proj.weight", "self_attn.qkv_proj.weight", 48, 16);
  expect_piece("mlp.gate_proj.weight", "mlp.gate_up_proj.weight", 0, 64);
  expect_piece("mlp.up_proj.weight", "mlp.gate_up_proj.weight", 64, 64);
}

TEST(TensorNamesTest, ExpertsAreStacked) {
  const NamedTensors mixtral("mixtral");
  const TensorPlan plan = plan_tensors(mixtral, golden_config("mixtral")).value();
  const PlannedTensor down = planned(plan, "model.layers.2.mlp.experts.down_proj.weight");
  EXPECT_EQ(down.shape, (std::vector<std::uint64_t>{4, 32, 16}));
  ASSERT_EQ(down.pieces.size(), 4U);
  EXPECT_EQ(down.pieces[3].source->name, "model.layers.2.block_sparse_moe.experts.3.w2.weight");
  EXPECT_EQ(down.pieces[3].rows, 32U);
  EXPECT_EQ(planned(plan, "model.layers.2.mlp.gate.weight").pieces[0].source->name,
            "model.layers.2.block_sparse_moe.gate.weight");

  NamedTensors qwen("qwen3_moe");
  const DecoderConfig config = golden_config("qwen3_moe");
  const TensorPlan other = plan_tensors(qwen, config).value();
  EXPECT_EQ(planned(other, "model.layers.0.mlp.experts.up_proj.weight").pieces[5].source->name,
            "model.layers.0.mlp.experts.5.up_proj.weight");
  EXPECT_EQ(planned(other, "model.layers.1.mlp.up_proj.weight").pieces.size(), 1U);
  qwen.at("model.layers.3.mlp.experts.4.up_proj.weight").name = "x";
  EXPECT_THAT(error_of(qwen, config),
              HasSubstr("\"model.layers.3.mlp.experts.4.up_proj.weight\": is missing"));
}

TEST(TensorNamesTest, ExpertsMayBeStoredAsStacks) {
  NamedTensors source("../spellings/mixtral_stacks");
  const DecoderConfig config = golden_config("../spellings/mixtral_stacks");
  const TensorPlan plan = plan_tensors(source, config).value();
  const PlannedTensor up = planned(plan, "model.layers.1.mlp.experts.up_proj.weight");
  EXPECT_EQ(up.shape, (std::vector<std::uint64_t>{4, 16, 32}));
  ASSERT_EQ(up.pieces.size(), 4U);
  EXPECT_EQ(up.pieces[2].source->name, "model.layers.1.mlp.experts.gate_up_proj");
  EXPECT_EQ(up.pieces[2].first_row, 2U * 32U + 16U);
  EXPECT_EQ(up.pieces[2].rows, 16U);
  EXPECT_EQ(planned(plan, "model.layers.1.mlp.experts.gate_proj.weight").pieces[2].first_row, 64U);
  const PlannedTensor down = planned(plan, "model.layers.1.mlp.experts.down_proj.weight");
  ASSERT_EQ(down.pieces.size(), 1U);
  EXPECT_EQ(down.pieces[0].rows, 4U * 32U);
  source.at("model.layers.0.mlp.experts.down_proj").shape = {4, 16, 32};
  EXPECT_THAT(error_of(source, config),
              HasSubstr("\"model.layers.0.mlp.experts.down_proj\": has the shape 4 x 16 x 32, "
                        "expected 4 x 32 x 16"));
}

TEST(TensorNamesTest, AModelThatSeesHasOtherPartsThatAreLeftOut) {
  for (const std::string root : {"language_model.model.", "model.language_model."}) {
    NamedTensors source("gemma3");
    for (TensorInfo& info : source.infos) info.name = root + info.name.substr(6);
    const DecoderConfig config = golden_config("gemma3");
    EXPECT_EQ(error_of(source, config), "no error");
    source.add("vision_tower.encoder.weight", {4});
    EXPECT_EQ(error_of(source, config), "no error");
    source.add("audio_tower.encoder.weight", {4});
    EXPECT_THAT(error_of(source, config),
                HasSubstr("\"audio_tower.encoder.weight\": has no place"));
  }
  NamedTensors plain("gemma3");
  plain.add("vision_tower.encoder.weight", {4});
  EXPECT_THAT(error_of(plain, golden_config("gemma3")), HasSubstr("has no place in the graph"));
}

TEST(TensorNamesTest, TheHeadLiesBesideOrInsideTheTextModel) {
  NamedTensors source("qwen3");
  for (TensorInfo& info : source.infos) info.name = "language_model." + info.name;
  EXPECT_EQ(error_of(source, golden_config("qwen3")), "no error");
}

TEST(TensorNamesTest, WhatSaysNothingIsLeftOut) {
  NamedTensors source("llama");
  const DecoderConfig config = golden_config("llama");
  source.add("model.layers.0.self_attn.rotary_emb.inv_freq", {8});
  source.add("lm_head.weight", {64, 32});  // the configuration ties it
  EXPECT_EQ(error_of(source, config), "no error");
  source.add("model.layers.0.self_attn.sinks", {4});
  EXPECT_EQ(error_of(source, config),
            "model: tensor \"model.layers.0.self_attn.sinks\": has no place in the graph, expected "
            "only what the configuration of a LlamaForCausalLM asks for");
}

TEST(TensorNamesTest, EachPartThatAFlagAsksForMustBeThere) {
  const std::pair<const char*, std::function<void(DecoderConfig&)>> kFlags[] = {
      {"input_layernorm", [](auto& c) { c.norms = model::NormPlacement::kBoth; }},
      {"q_norm", [](auto& c) { c.query_key_norm = model::QueryKeyNorm::kPerHead; }},
      {"q_proj.bias", [](auto& c) { c.query_key_value_bias = true; }},
      {"o_proj.bias", [](auto& c) { c.attention_output_bias = true; }},
      {"gate_proj.bias", [](auto& c) { c.feed_forward_bias = true; }},
      {"mlp.gate.weight",
       [](auto& c) {
         c.experts = {4, 2, 16, true};
         c.layers[0].has_experts = true;
       }},
  };
  for (const auto& [part, change] : kFlags) {
    DecoderConfig config = golden_config("olmo2");
    config.query_key_norm = model::QueryKeyNorm::kWhole;
    if (std::string_view(part) == "q_norm") config = golden_config("mistral");
    const NamedTensors source(std::string_view(part) == "q_norm" ? "mistral" : "olmo2");
    change(config);
    EXPECT_THAT(error_of(source, config), HasSubstr(part));
    EXPECT_THAT(error_of(source, config), HasSubstr("is missing"));
  }
  DecoderConfig untied = golden_config("llama");
  untied.tied_head = false;
  EXPECT_THAT(error_of(NamedTensors("llama"), untied), HasSubstr("\"lm_head.weight\": is missing"));
}

TEST(TensorNamesTest, EightBitMatricesHaveTheirScales) {
  NamedTensors source("llama_linear");
  DecoderConfig config = golden_config("llama_linear");
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  source.at(name).type = TensorType::kF8_E4M3;
  source.add(name + "_scale", {});
  source.add("model.layers.0.mlp.up_proj.input_scale", {});
  TensorPlan plan = plan_tensors(source, config).value();
  EXPECT_EQ(planned(plan, name).pieces[0].scale->name, name + "_scale");
  EXPECT_EQ(planned(plan, "model.layers.1.mlp.up_proj.weight").pieces[0].scale, nullptr);
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{64, 1}, {64}, {1}}) {
    source.at(name + "_scale").shape = shape;
    EXPECT_EQ(error_of(source, config), "no error");
  }
  source.at(name + "_scale").shape = {1, 1};
  EXPECT_THAT(error_of(source, config), HasSubstr("has the shape 1 x 1, expected 64 x 1"));
  config.fp8_block_rows = 48;
  config.fp8_block_columns = 16;
  EXPECT_THAT(error_of(source, config), HasSubstr("has the shape 1 x 1, expected 2 x 2"));
  source.at(name + "_scale").shape = {2, 2};
  source.at(name + "_scale").name = name + "_scale_inv";
  plan = plan_tensors(source, config).value();
  EXPECT_EQ(planned(plan, name).pieces[0].scale->name, name + "_scale_inv");
}

TEST(TensorNamesTest, EightBitMatricesWithoutScalesAreNamed) {
  NamedTensors source("llama_linear");
  DecoderConfig config = golden_config("llama_linear");
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  source.at(name).type = TensorType::kF8_E4M3;
  EXPECT_EQ(error_of(source, config), "no error");
  config.fp8_scales = true;
  EXPECT_EQ(error_of(source, config), "model: tensor \"" + name +
                                          "_scale_inv\": is missing, the scale of a matrix in "
                                          "F8_E4M3");
  NamedTensors stacks("../spellings/mixtral_stacks");
  config = golden_config("../spellings/mixtral_stacks");
  config.fp8_scales = true;
  stacks.at("model.layers.0.mlp.experts.down_proj").type = TensorType::kF8_E4M3;
  EXPECT_THAT(error_of(stacks, config), HasSubstr("is a stack of experts in F8_E4M3"));
}

}  // namespace
}  // namespace paceline::compiler
