#include "compiler/weight_options.h"

#include <gtest/gtest.h>

namespace paceline::compiler {
namespace {

using model::TensorType;

/// A plan of the usual tensors over sources of one type each.
class WeightOptionsTest : public testing::Test {
 protected:
  void plan(TensorType matrices, TensorType table, bool tied) {
    matrix_.type = matrices;
    table_.type = table;
    plan_ = {};
    add("model.embed_tokens.weight", {64, 32}, table_);
    for (const char* layer : {"0", "1"}) {
      const std::string prefix = std::string("model.layers.") + layer;
      add(prefix + ".input_layernorm.weight", {32}, norm_);
      add(prefix + ".self_attn.q_proj.weight", {32, 32}, matrix_);
      add(prefix + ".self_attn.q_proj.bias", {32}, norm_);
      add(prefix + ".mlp.gate.weight", {4, 32}, matrix_);
      add(prefix + ".mlp.experts.gate_proj.weight", {4, 16, 32}, matrix_);
    }
    add("model.norm.weight", {32}, norm_);
    if (!tied) add("lm_head.weight", {64, 32}, table_);
  }
  void add(const std::string& name, std::vector<std::uint64_t> shape,
           const model::TensorInfo& info) {
    plan_.tensors.push_back({name, std::move(shape), {{&info, 0, 1}}});
  }
  WeightKind kind(const std::string& name, const WeightOptions& options) const {
    for (const PlannedTensor& tensor : plan_.tensors) {
      if (tensor.name == name) return kind_of(tensor, resolved(options, plan_));
    }
    ADD_FAILURE() << name;
    return WeightKind::kKeep;
  }

  model::TensorInfo norm_ = {"norm", TensorType::kF32, {32}, 128};
  model::TensorInfo matrix_ = {"matrix", TensorType::kF16, {32, 32}, 2048};
  model::TensorInfo table_ = {"table", TensorType::kF16, {64, 32}, 4096};
  TensorPlan plan_;
};

constexpr char kQuery[] = "model.layers.1.self_attn.q_proj.weight";
constexpr char kExperts[] = "model.layers.1.mlp.experts.gate_proj.weight";
constexpr char kRouter[] = "model.layers.1.mlp.gate.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kHead[] = "lm_head.weight";

TEST_F(WeightOptionsTest, FloatsBecomeInt4AndQuantsAreKeptUnlessToldOtherwise) {
  const WeightOptions automatic = {.weights = {}};
  plan(TensorType::kBF16, TensorType::kBF16, false);
  EXPECT_EQ(kind(kQuery, automatic), WeightKind::kInt4);
  EXPECT_EQ(kind(kExperts, automatic), WeightKind::kInt4);
  EXPECT_EQ(kind(kEmbedding, automatic), WeightKind::kInt8);
  EXPECT_EQ(kind(kHead, automatic), WeightKind::kInt8);
  plan(TensorType::kQ4_0, TensorType::kF16, false);
  EXPECT_EQ(kind(kQuery, automatic), WeightKind::kKeep);
  EXPECT_EQ(kind(kHead, automatic), WeightKind::kKeep);
  EXPECT_EQ(kind(kQuery, {.weights = WeightKind::kInt4}), WeightKind::kInt4);
  EXPECT_EQ(kind(kHead, {.weights = WeightKind::kInt4}), WeightKind::kInt8);
  EXPECT_EQ(kind(kHead, {.weights = WeightKind::kF16}), WeightKind::kF16);
}

TEST_F(WeightOptionsTest, NormsBiasesAndRoutersAreF32) {
  plan(TensorType::kBF16, TensorType::kBF16, false);
  for (const WeightKind weights : {WeightKind::kInt4, WeightKind::kF16, WeightKind::kKeep}) {
    const WeightOptions options = {.weights = weights};
    EXPECT_EQ(kind("model.norm.weight", options), WeightKind::kF32);
    EXPECT_EQ(kind("model.layers.0.self_attn.q_proj.bias", options), WeightKind::kF32);
    EXPECT_EQ(kind(kRouter, options), WeightKind::kF32);
  }
}

TEST_F(WeightOptionsTest, HeadEmbeddingAndLayersCanBeChosen) {
  plan(TensorType::kF32, TensorType::kF32, false);
  const WeightOptions options = {.weights = WeightKind::kInt4Asymmetric,
                                 .embedding = WeightKind::kF16,
                                 .head = WeightKind::kInt4,
                                 .int8_layers = {1}};
  EXPECT_EQ(kind(kEmbedding, options), WeightKind::kF16);
  EXPECT_EQ(kind(kHead, options), WeightKind::kInt4);
  EXPECT_EQ(kind(kQuery, options), WeightKind::kInt8);
  EXPECT_EQ(kind("model.layers.0.self_attn.q_proj.weight", options), WeightKind::kInt4Asymmetric);
  // What is finer than int8 stays so.
  EXPECT_EQ(kind(kQuery, {.weights = WeightKind::kF16, .int8_layers = {1}}), WeightKind::kF16);
}

TEST_F(WeightOptionsTest, ATiedTableFollowsTheHeadWhereOnlyThatIsSaid) {
  plan(TensorType::kF32, TensorType::kF32, true);
  EXPECT_EQ(kind(kEmbedding, {.weights = WeightKind::kInt4, .head = WeightKind::kF16}),
            WeightKind::kF16);
  plan(TensorType::kF32, TensorType::kF32, false);
  EXPECT_EQ(kind(kEmbedding, {.weights = WeightKind::kInt4, .head = WeightKind::kF16}),
            WeightKind::kInt8);
}

TEST(WeightNameTest, LayersAndParts) {
  EXPECT_EQ(layer_of("model.layers.12.mlp.up_proj.weight"), 12U);
  EXPECT_EQ(layer_of("model.norm.weight"), std::nullopt);
  EXPECT_EQ(layer_of("model.layers.x.mlp.weight"), std::nullopt);
  EXPECT_EQ(layer_of("model.layers.7"), std::nullopt);
  EXPECT_EQ(part_of("model.layers.12.mlp.up_proj.weight"), "mlp.up_proj");
  EXPECT_EQ(part_of("lm_head.weight"), "lm_head");
}

TEST(WeightNameTest, KindsHaveNames) {
  for (const char* name : {"keep", "f32", "f16", "bf16", "int8", "int4", "int4-asym"}) {
    const auto kind = weight_kind_from(name);
    ASSERT_TRUE(kind) << name;
    EXPECT_EQ(to_string(*kind), name);
  }
  EXPECT_FALSE(weight_kind_from("int3"));
}

TEST(GroupTest, TheLargestThatDivides) {
  EXPECT_EQ(group_for(4096, 128), 128U);
  EXPECT_EQ(group_for(576, 128), 64U);
  EXPECT_EQ(group_for(96, 128), 32U);
  EXPECT_EQ(group_for(4096, 64), 64U);
  EXPECT_EQ(group_for(4096, 32), 32U);
  EXPECT_EQ(group_for(100, 128), 0U);
}

}  // namespace
}  // namespace paceline::compiler
