// What the head reads of each row, on the tiny models: it is that, and in profile exact the same
// alone, in a batch, in chunks and over stages.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include <openvino/op/matmul.hpp>
#include <openvino/runtime/core.hpp>
#include <openvino/runtime/properties.hpp>

#include "cut/test_models.h"
#include "engine/engine_testing.h"
#include "engine/paged_engine.h"
#include "engine/stage_ports.h"
#include "engine/stateful_engine.h"

namespace paceline::engine {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kWidth = 32;  ///< of the tiny models

Result<std::unique_ptr<StageEngine>> load_stateful(const StageOptions& options) {
  return load_stateful_engine(options, {});
}

/// The head's weights [vocabulary, width], as the IR has them.
std::vector<float> head_weights(const std::string& model) {
  ov::Core core;
  const auto decoder = cut::read_tiny_model(core, model).model;
  auto node = decoder->get_results().front()->get_input_node_shared_ptr(0);
  while (!ov::is_type<ov::op::v0::MatMul>(node)) node = node->get_input_node_shared_ptr(0);
  EXPECT_TRUE(ov::as_type_ptr<ov::op::v0::MatMul>(node)->get_transpose_b());
  const auto weights =
      std::make_shared<ov::Model>(ov::OutputVector{node->input_value(1)}, ov::ParameterVector{});
  auto request = core.compile_model(weights, "CPU", ov::hint::inference_precision(ov::element::f32))
                     .create_infer_request();
  request.infer();
  const auto tensor = request.get_output_tensor();
  EXPECT_EQ(tensor.get_shape(), (ov::Shape{kVocabulary, kWidth}));
  return {tensor.data<float>(), tensor.data<float>() + tensor.get_size()};
}

/// Of the models whose logits are the product alone: no bias, no scale, no cap.
class FinalRowsAreTest : public testing::TestWithParam<std::string> {};

TEST_P(FinalRowsAreTest, WhatTheHeadTurnsIntoLogits) {
  const std::vector<float> weights = head_weights(GetParam());
  const StageBatch batch = batch_of({rows(1, 0, 6), rows(2, 0, 1)});
  for (const auto& load :
       {EngineChain::Loader(load_paged_engine), EngineChain::Loader(load_stateful)}) {
    EngineChain chain(GetParam(), 2, Profile::kExact, load);
    const bool is_paged = chain.stage(0).info().engine == EngineKind::kPaged;
    const auto ends = chain.run_with_final_rows(is_paged ? batch : batch_of({rows(1, 0, 6)}));
    ASSERT_EQ(ends.final_rows.size() * kVocabulary, ends.logits.size() * kWidth);
    double largest = 0;
    for (std::size_t row = 0; row < ends.final_rows.size() / kWidth; ++row) {
      for (std::size_t token = 0; token < kVocabulary; ++token) {
        double logit = 0;
        for (std::size_t i = 0; i < kWidth; ++i) {
          logit += double{weights[token * kWidth + i]} * double{ends.final_rows[row * kWidth + i]};
        }
        largest = std::max(largest, std::abs(logit - ends.logits[row * kVocabulary + token]));
      }
    }
    EXPECT_LE(largest, 1e-5) << to_string(chain.stage(0).info().engine);
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, FinalRowsAreTest,
                         testing::Values("llama_tied", "qwen3", "phi3", "olmo2"));

class FinalRowsTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint32_t kPrompt = 23;

  /// Of sequence 1, in chunks of these sizes or the rest; with others around it where `random` is
  /// given. Of a chunk that is not the last nothing is sampled.
  static std::vector<float> final_rows(EngineChain& chain, const std::vector<std::uint32_t>& sizes,
                                       std::mt19937* random) {
    std::vector<float> all;
    std::uint32_t past = 0;
    for (std::size_t chunk = 0; past < kPrompt; ++chunk) {
      const std::uint32_t left = kPrompt - past;
      const std::uint32_t count = chunk < sizes.size() ? std::min(sizes[chunk], left) : left;
      std::vector<SequenceRows> sequences = {rows(1, past, count)};
      if (count < left) {
        sequences[0].sampled_rows.clear();
      } else {
        sequences[0].sampled_rows = {count - 1};
      }
      std::uint32_t before = 0;
      if (random != nullptr) {
        std::uniform_int_distribution<std::uint32_t> few(1, 3);
        before = few(*random);
        sequences.insert(sequences.begin(), rows(2, 0, before));
        sequences.push_back(rows(3, 0, few(*random)));
      }
      const auto ends = chain.run_with_final_rows(batch_of(sequences));
      const auto first = ends.final_rows.begin() + static_cast<std::ptrdiff_t>(before * kWidth);
      all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(count * kWidth));
      past += count;
    }
    return all;
  }
};

TEST_P(FinalRowsTest, InExactTheyAreTheSameAloneBatchedInChunksAndOverStages) {
  std::mt19937 random(7);
  const auto up_to = [&random](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  EngineChain whole(GetParam(), 1, Profile::kExact, load_paged_engine);
  EXPECT_EQ(whole.stage(0).info().final_width, kWidth);
  const auto expected = final_rows(whole, {}, nullptr);
  ASSERT_EQ(expected.size(), kPrompt * kWidth);
  for (const std::uint32_t stages : {1U, 2U, kLayers}) {
    EngineChain chain(GetParam(), stages, Profile::kExact, load_paged_engine);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::uint32_t> sizes(up_to(5));
      for (auto& size : sizes) size = 1 + up_to(5);
      const bool is_alone = up_to(1) == 0;
      EXPECT_EQ(difference(final_rows(chain, sizes, is_alone ? nullptr : &random), expected), 0.0F)
          << stages << " stages, chunks " << testing::PrintToString(sizes) << is_alone;
    }
  }
}

TEST_P(FinalRowsTest, InFastStagesChangeNothing) {
  EngineChain whole(GetParam(), 1, Profile::kFast, load_paged_engine);
  EngineChain chain(GetParam(), 2, Profile::kFast, load_paged_engine);
  const auto expected = final_rows(whole, {9, 1}, nullptr);
  EXPECT_EQ(difference(final_rows(chain, {9, 1}, nullptr), expected), 0.0F);
}

TEST_P(FinalRowsTest, TheStatefulEngineHasThemInAnyChunks) {
  EngineChain whole(GetParam(), 1, Profile::kExact, load_stateful);
  EngineChain chain(GetParam(), 2, Profile::kExact, load_stateful);
  const auto expected = final_rows(whole, {}, nullptr);
  ASSERT_EQ(expected.size(), kPrompt * kWidth);
  EXPECT_EQ(difference(final_rows(chain, {5, 1, 9}, nullptr), expected), 0.0F);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, FinalRowsTest, testing::ValuesIn(cut::tiny_model_names()));

TEST(FinalRowsOfStagesTest, AStageThatHasNoneSaysSo) {
  EngineChain chain("qwen3", 2, Profile::kExact, load_paged_engine);
  EXPECT_EQ(chain.stage(0).info().final_width, 0U);
  StageBatch batch = batch_of({rows(1, 0, 3)});
  batch.wants_final_rows = true;
  const auto refused = chain.stage(0).run(batch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("gives no final rows"));
}

TEST(FinalRowsOfStagesTest, RowsOfBf16ComeAsF32WithoutThePadding) {
  std::vector<std::uint16_t> halves = {0x3F80, 0xC000, 0x1234, 0x1234, 0x0001, 0x7F80};
  const ov::Tensor tensor(ov::element::bf16, ov::Shape{3, 1, 2}, halves.data());
  std::vector<float> all = {5.0F};
  append_final_rows(tensor, 2, {true, false, true}, all);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[0], 5.0F);
  EXPECT_EQ(all[1], 1.0F);
  EXPECT_EQ(all[2], -2.0F);
  EXPECT_EQ(all[3], 9.183549615799121e-41F);
  EXPECT_TRUE(std::isinf(all[4]));
}

}  // namespace
}  // namespace paceline::engine
