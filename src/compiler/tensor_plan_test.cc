#include "compiler/tensor_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "compiler/small_llama.h"

namespace paceline::compiler {
namespace {

using model::GgufTestWriter;

Result<TensorPlan> plan_after(const std::function<void(GgufTestWriter&)>& change,
                              const SmallLlama& options = {}) {
  GgufTestWriter writer = write_small_llama(options);
  change(writer);
  auto file = model::GgufFile::from_memory("small.gguf", writer.finish());
  if (!file) return fail(file.error());
  auto config = (*file)->decoder_config();
  if (!config) return fail(config.error());
  return plan_tensors(**file, *config);
}

GgufTestWriter::Tensor& tensor(GgufTestWriter& writer, const std::string& name) {
  for (auto& tensor : writer.tensors()) {
    if (tensor.name == name) return tensor;
  }
  std::abort();
}

TEST(TensorPlanTest, TensorsLieInTheOrderOfTheLayers) {
  const auto file = open_small_llama({.layers = 3, .tied = false});
  const auto plan = plan_tensors(*file, file->decoder_config().value());
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_EQ(plan->tensors.size(), 3U + 3 * 9);
  EXPECT_EQ(plan->tensors.front().name, "model.embed_tokens.weight");
  EXPECT_EQ(plan->tensors[1].name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(plan->tensors[2].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(plan->tensors[2].pieces[0].source->name, "blk.0.attn_q.weight");
  EXPECT_EQ(plan->tensors[10].name, "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(plan->tensors[28].name, "model.norm.weight");
  EXPECT_EQ(plan->tensors[29].name, "lm_head.weight");
}

TEST(TensorPlanTest, RowsOfAHeadGoFromNeighboursToHalves) {
  const RowOrder order = {8, 8};
  const std::uint64_t expected[] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  for (std::uint64_t row = 0; row < 16; ++row) EXPECT_EQ(order.source_row(row), expected[row]);
  const RowOrder partial = {6, 4};
  const std::uint64_t some[] = {0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11};
  for (std::uint64_t row = 0; row < 12; ++row) EXPECT_EQ(partial.source_row(row), some[row]);
  EXPECT_EQ(RowOrder().source_row(5), 5U);
}

TEST(TensorPlanTest, OnlyQueriesAndKeysAreReordered) {
  const auto file = open_small_llama({.rotary = 32});
  const auto plan = plan_tensors(*file, file->decoder_config().value());
  ASSERT_TRUE(plan);
  for (const PlannedTensor& planned : plan->tensors) {
    const bool turned = planned.name.find("q_proj") != std::string::npos ||
                        planned.name.find("k_proj") != std::string::npos;
    EXPECT_EQ(planned.order.head_size, turned ? 64U : 0U) << planned.name;
    EXPECT_EQ(planned.order.rotary, turned ? 32U : 0U);
  }
}

TEST(TensorPlanTest, WhatDoesNotFitIsNamed) {
  const auto expect_error = [](const std::function<void(GgufTestWriter&)>& change, ErrorCode code,
                               const std::string& expected) {
    const auto plan = plan_after(change);
    ASSERT_FALSE(plan) << expected;
    EXPECT_EQ(plan.error().code(), code);
    EXPECT_EQ(plan.error().message(), "small.gguf: tensor " + expected);
  };
  expect_error([](GgufTestWriter& w) { tensor(w, "blk.1.ffn_up.weight").name = "x"; },
               ErrorCode::kNotFound, "\"blk.1.ffn_up.weight\": is missing");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.block_count", 3); }, ErrorCode::kNotFound,
               "\"blk.2.attn_norm.weight\": is missing");
  expect_error([](GgufTestWriter& w) { w.set_u32("llama.block_count", 1); },
               ErrorCode::kUnimplemented,
               "\"blk.1.attn_norm.weight\": has no place in the graph, expected only what the "
               "configuration of a llama asks for");
  expect_error(
      [](GgufTestWriter& w) {
        tensor(w, "blk.0.attn_k.weight").shape = {256, 128};
      },
      ErrorCode::kDataLoss, "\"blk.0.attn_k.weight\": has the shape 256 x 128, expected 128 x 256");
  expect_error(
      [](GgufTestWriter& w) {
        tensor(w, "output_norm.weight").shape = {1, 256};
      },
      ErrorCode::kDataLoss, "\"output_norm.weight\": has the shape 1 x 256, expected 256");
  expect_error(
      [](GgufTestWriter& w) {
        w.add({"blk.0.attn_q.gate", {256}, 0, std::string(1024, '\0')});
      },
      ErrorCode::kUnimplemented,
      "\"blk.0.attn_q.gate\": has no place in the graph, expected only what the configuration "
      "of a llama asks for");
}

}  // namespace
}  // namespace paceline::compiler
