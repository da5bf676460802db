// For tests of the stage executor: steps as coordinators send them, and one over a fake engine.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/fake_engine_testing.h"
#include "worker/stage_executor.h"

namespace paceline::worker {

inline std::vector<BlockId> blocks(std::uint32_t first, std::uint32_t count) {
  std::vector<BlockId> result;
  for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(first + i);
  return result;
}

inline wire::SequenceSpec opened(std::uint64_t id) {
  wire::SequenceSpec spec;
  spec.sequence = SequenceId(id);
  return spec;
}

/// Rows of sequence `id`, whose blocks begin at 10 x id; the last row is sampled.
inline wire::StepSequence rows(std::uint64_t id, std::uint32_t past,
                               std::vector<std::int64_t> tokens) {
  wire::StepSequence entry;
  entry.sequence = SequenceId(id);
  entry.past_tokens = past;
  entry.new_tokens = static_cast<std::uint32_t>(tokens.size());
  entry.tokens.assign(tokens.begin(), tokens.end());
  entry.sampled_rows = {entry.new_tokens - 1};
  entry.blocks = {blocks(static_cast<std::uint32_t>(10 * id), 8)};
  return entry;
}

inline wire::StepSequence operations(std::uint64_t id, std::vector<wire::Operation> list) {
  wire::StepSequence entry;
  entry.sequence = SequenceId(id);
  entry.operations = std::move(list);
  return entry;
}

inline wire::Step step_of(std::vector<wire::SequenceSpec> specs,
                          std::vector<wire::StepSequence> entries) {
  wire::Step step;
  step.opened = std::move(specs);
  step.sequences = std::move(entries);
  return step;
}

inline std::vector<std::int64_t> tokens_of(const StepProduct& product) {
  std::vector<std::int64_t> tokens;
  for (const wire::Sample& sample : product.samples) tokens.push_back(sample.token);
  return tokens;
}

/// An executor over all `kLayers` layers, or a part of them.
class StageExecutorTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kLayers = 3;

  explicit StageExecutorTest(LayerRange layers = {0, kLayers},
                             LinkPrecision links = LinkPrecision::kNative) {
    auto engine = std::make_unique<FakeEngine>(layers, kLayers);
    engine_ = engine.get();
    executor_ = std::make_unique<StageExecutor>(std::move(engine), links);
  }

  Result<StepProduct> execute(const wire::Step& step, std::vector<wire::Tensor> tensors = {}) {
    return executor_->execute(StepId(++step_), step, tensors);
  }
  void expect_refused(const wire::Step& step, ErrorCode code, const char* message,
                      std::vector<wire::Tensor> tensors = {}) {
    const std::size_t open = executor_->open_sequences();
    const int runs = engine_->runs;
    const auto result = execute(step, std::move(tensors));
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    EXPECT_THAT(result.error().message(), testing::HasSubstr(message));
    EXPECT_EQ(executor_->open_sequences(), open);
    EXPECT_EQ(engine_->runs, runs);
  }

  std::uint64_t step_ = 0;
  FakeEngine* engine_ = nullptr;
  std::unique_ptr<StageExecutor> executor_;
};

}  // namespace paceline::worker
