#include "worker/stage_executor.h"

#include <gmock/gmock.h>

#include "sampling/sequence_sampler.h"
#include "worker/stage_executor_testing.h"

namespace paceline::worker {
namespace {

using testing::ElementsAre;

TEST_F(StageExecutorTest, ASequenceIsOpenedContinuedAndFreed) {
  const auto answer = fake_answer({5, 6, 7}, kLayers, 2);
  const auto first = execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})}));
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_THAT(tokens_of(*first), ElementsAre(answer[0]));
  EXPECT_EQ(first->samples[0].row, 2U);
  EXPECT_EQ(first->samples[0].logits_digest, 0U);
  const auto second = execute(step_of({}, {rows(1, 3, {answer[0]})}));
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_THAT(tokens_of(*second), ElementsAre(answer[1]));
  EXPECT_EQ(executor_->open_sequences(), 1U);
  ASSERT_TRUE(execute(step_of({}, {operations(1, {wire::Free()})})));
  EXPECT_EQ(executor_->open_sequences(), 0U);
  expect_refused(step_of({}, {rows(1, 4, {1})}), ErrorCode::kFailedPrecondition,
                 "sequence 1 was not opened");
}

TEST_F(StageExecutorTest, AStepWithOperationsOnlyDoesNotRunTheEngine) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5})})));
  const auto product = execute(step_of({}, {operations(1, {wire::Truncate{0}})}));
  ASSERT_TRUE(product);
  EXPECT_TRUE(product->samples.empty() && product->boundaries.empty());
  EXPECT_EQ(engine_->runs, 1);
  EXPECT_TRUE(execute(wire::Step())) << "a step may be empty";
}

TEST_F(StageExecutorTest, AnEngineOfOneSequenceHearsOfTheEndOfEach) {
  engine_->become_stateful();
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6})})));
  expect_refused(step_of({opened(2)}, {rows(2, 0, {7})}), ErrorCode::kFailedPrecondition,
                 "holds one sequence");
  // With the rows of the next one, and alone.
  const auto second =
      execute(step_of({opened(2)}, {rows(2, 0, {7}), operations(1, {wire::Free()})}));
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(tokens_of(*second), fake_answer({7}, kLayers, 1));
  ASSERT_TRUE(execute(step_of({}, {operations(2, {wire::Free()})})));
  ASSERT_TRUE(execute(step_of({opened(3)}, {rows(3, 0, {8})})));
  auto fork = rows(4, 1, {9});
  fork.operations = {wire::Fork{SequenceId(3)}};
  expect_refused(step_of({opened(4)}, {fork}), ErrorCode::kFailedPrecondition,
                 "holds one sequence");
}

TEST_F(StageExecutorTest, TruncateForgetsAndNeverAdds) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})})));
  auto redo = rows(1, 2, {9});
  redo.operations = {wire::Truncate{7}, wire::Truncate{2}};
  const auto product = execute(step_of({}, {redo}));
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_EQ(tokens_of(*product), fake_answer({5, 6, 9}, kLayers, 1));
  auto beyond = rows(1, 9, {1});
  beyond.operations = {wire::Truncate{9}};
  expect_refused(step_of({}, {beyond}), ErrorCode::kFailedPrecondition,
                 "sequence 1 continues at token 9, this stage holds 3");
}

TEST_F(StageExecutorTest, AForkTakesOverWhatItsParentHas) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})})));
  auto heir = rows(2, 2, {8});
  heir.operations = {wire::Fork{SequenceId(1)}, wire::Truncate{2}};
  heir.blocks = {blocks(10, 8)};
  const auto product = execute(step_of({opened(2)}, {heir, operations(1, {wire::Free()})}));
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_EQ(tokens_of(*product), fake_answer({5, 6, 8}, kLayers, 1));
  EXPECT_EQ(executor_->open_sequences(), 1U);
  expect_refused(step_of({opened(3)}, {operations(3, {wire::Fork{SequenceId(1)}})}),
                 ErrorCode::kFailedPrecondition, "sequence 3 forks from 1, which is not open");
}

TEST_F(StageExecutorTest, ASequenceBeginsWhereItsBlocksHaveTheKvOfOthers) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})})));
  const std::int64_t likeliest = fake_answer({5, 6, 8}, kLayers, 1)[0];
  auto cached = rows(2, 2, {8});
  cached.blocks = {blocks(10, 8)};
  const auto product = execute(step_of({opened(2)}, {cached}));
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_THAT(tokens_of(*product), ElementsAre(likeliest));
  // The sampler's history has all tokens, also those that are not computed here.
  auto spec = opened(4);
  spec.history = {likeliest, 6, 8};
  spec.sampling.presence_penalty = 2;
  cached.sequence = SequenceId(4);
  const auto penalized = execute(step_of({spec}, {cached}));
  ASSERT_TRUE(penalized) << penalized.error().message();
  EXPECT_NE(tokens_of(*penalized)[0], likeliest);
  auto next = rows(2, 3, {1});
  next.blocks = {blocks(10, 8)};
  ASSERT_TRUE(execute(step_of({}, {next})));
  // Later it is held to its past like any other, also where it was opened without rows.
  expect_refused(step_of({}, {rows(2, 2, {1})}), ErrorCode::kFailedPrecondition,
                 "sequence 2 continues at token 2, this stage holds 4");
  ASSERT_TRUE(execute(step_of({opened(3)}, {})));
  expect_refused(step_of({}, {rows(3, 2, {1})}), ErrorCode::kFailedPrecondition,
                 "sequence 3 continues at token 2, this stage holds 0");
}

TEST_F(StageExecutorTest, FreeingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(execute(step_of({}, {operations(7, {wire::Free()})})));
  expect_refused(step_of({}, {operations(7, {wire::Truncate{0}, wire::Free()})}),
                 ErrorCode::kFailedPrecondition, "sequence 7 was not opened");
  // Opened and freed at once: the request was cancelled before its first step.
  EXPECT_TRUE(execute(step_of({opened(8)}, {operations(8, {wire::Free()})})));
  EXPECT_EQ(executor_->open_sequences(), 0U);
}

TEST_F(StageExecutorTest, ABlockIsCopiedBeforeTheRows) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})})));
  wire::Step step = step_of({opened(2)}, {rows(2, 3, {8})});
  step.sequences[0].operations = {wire::Fork{SequenceId(1)}};
  step.copies = {{0, BlockId(10), BlockId(20)}};
  const auto product = execute(step);
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_EQ(tokens_of(*product), fake_answer({5, 6, 7, 8}, kLayers, 1));
}

TEST_F(StageExecutorTest, SeveralSequencesAndRowsAreSampledInOrder) {
  auto twice = rows(1, 0, {5, 6, 7});
  twice.sampled_rows = {0, 2};
  auto none = rows(2, 0, {8, 9});
  none.sampled_rows = {};
  const auto product =
      execute(step_of({opened(1), opened(2), opened(3)}, {twice, none, rows(3, 0, {4})}));
  ASSERT_TRUE(product) << product.error().message();
  ASSERT_EQ(product->samples.size(), 3U);
  EXPECT_THAT(tokens_of(*product),
              ElementsAre(fake_answer({5}, kLayers, 1)[0], fake_answer({5, 6, 7}, kLayers, 1)[0],
                          fake_answer({4}, kLayers, 1)[0]));
  EXPECT_EQ(product->samples[0].row, 0U);
  EXPECT_EQ(product->samples[1].row, 2U);
  EXPECT_EQ(product->samples[2].row, 5U) << "rows are numbered over the step";
  EXPECT_EQ(product->samples[2].sequence, SequenceId(3));
}

TEST_F(StageExecutorTest, SamplingAndDigestsAreThoseOfTheSequence) {
  auto spec = opened(1);
  spec.sampling.temperature = 5.0;
  spec.sampling.seed = 42;
  spec.want_logits_digest = true;
  const auto product = execute(step_of({spec}, {rows(1, 0, {5, 6, 7})}));
  ASSERT_TRUE(product);
  std::vector<float> logits(kFakeVocabulary, 0.0F);
  logits[static_cast<std::size_t>(fake_answer({5, 6, 7}, kLayers, 1)[0])] = 1.0F;
  EXPECT_EQ(product->samples[0].logits_digest, sampling::logits_digest(logits));
  // The token after 3 others stands at position 3, whatever step it is sampled in.
  EXPECT_EQ(product->samples[0].token, sampling::sample(logits, spec.sampling, 3)->token);
}

TEST_F(StageExecutorTest, ATokenMayBeTheResultOfAnEarlierStep) {
  const auto answer = fake_answer({5, 6, 7}, kLayers, 2);
  ASSERT_TRUE(
      execute(step_of({opened(1), opened(2)}, {rows(2, 0, {1, 1}), rows(1, 0, {5, 6, 7})})));
  auto next = rows(1, 3, {0});
  next.tokens = {wire::TokenReference{StepId(1), 4}};
  const auto product = execute(step_of({}, {next}));
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_THAT(tokens_of(*product), ElementsAre(answer[1]));
  next.past_tokens = 4;
  next.tokens = {wire::TokenReference{StepId(1), 3}};
  expect_refused(step_of({}, {next}), ErrorCode::kInvalidArgument, "row 3 of step 1, not sampled");
  next.tokens = {wire::TokenReference{StepId(99), 0}};
  expect_refused(step_of({}, {next}), ErrorCode::kUnimplemented, "refers to step 99");
}

TEST_F(StageExecutorTest, AFailedRunLeavesTheSequencesAsTheyWere) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6})})));
  engine_->failure = Error(ErrorCode::kInternal, "the device is gone");
  auto step = step_of({opened(2)}, {rows(1, 2, {7}), rows(2, 0, {8})});
  expect_refused(step, ErrorCode::kInternal, "the device is gone");
  engine_->failure.reset();
  const auto again = execute(step);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_THAT(tokens_of(*again),
              ElementsAre(fake_answer({5, 6, 7}, kLayers, 1)[0], fake_answer({8}, kLayers, 1)[0]));
}

/// One whose prompt's mean is wanted.
wire::SequenceSpec opened_for_mean(std::uint64_t id, std::uint32_t prompt_tokens) {
  wire::SequenceSpec spec = opened(id);
  spec.want_mean = true;
  spec.prompt_tokens = prompt_tokens;
  return spec;
}

/// Rows of a prompt of which nothing is sampled.
wire::StepSequence chunk(std::uint64_t id, std::uint32_t past, std::vector<std::int64_t> tokens) {
  wire::StepSequence entry = rows(id, past, std::move(tokens));
  entry.sampled_rows.clear();
  return entry;
}

TEST_F(StageExecutorTest, TheMeanOfAPromptComesWithTheSampleBehindIt) {
  const std::vector<std::int64_t> prompt = {5, 6, 7, 50, 11};
  const auto expected = fake_mean(prompt, kLayers);
  const auto whole = execute(
      step_of({opened(1), opened_for_mean(2, 5)}, {rows(1, 0, {9, 3}), rows(2, 0, prompt)}));
  ASSERT_TRUE(whole) << whole.error().message();
  ASSERT_EQ(whole->samples.size(), 2U);
  EXPECT_TRUE(whole->samples[0].mean.empty());
  EXPECT_EQ(whole->samples[1].mean, expected);
  EXPECT_EQ(whole->samples[1].token, fake_answer(prompt, kLayers, 1)[0]);
  // In chunks, between rows of others; nothing comes before the end, nor behind it.
  ASSERT_TRUE(execute(step_of({opened_for_mean(3, 5)}, {chunk(3, 0, {5, 6}), rows(1, 2, {4})})));
  const auto middle = execute(step_of({}, {rows(1, 3, {4}), chunk(3, 2, {7})}));
  ASSERT_TRUE(middle) << middle.error().message();
  for (const auto& sample : middle->samples) EXPECT_TRUE(sample.mean.empty());
  const auto end = execute(step_of({}, {rows(1, 4, {4}), rows(3, 3, {50, 11})}));
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(end->samples.at(1).mean, expected);
  const auto behind = execute(step_of({}, {rows(3, 5, {8})}));
  ASSERT_TRUE(behind) << behind.error().message();
  EXPECT_TRUE(behind->samples.at(0).mean.empty());
}

TEST_F(StageExecutorTest, AFailedStepAddsNothingToASum) {
  const std::vector<std::int64_t> prompt = {5, 6, 7, 50};
  ASSERT_TRUE(execute(step_of({opened_for_mean(1, 4)}, {chunk(1, 0, {5})})));
  engine_->failure = Error(ErrorCode::kInternal, "the device is gone");
  const auto step = step_of({}, {chunk(1, 1, {6, 7})});
  expect_refused(step, ErrorCode::kInternal, "the device is gone");
  engine_->failure.reset();
  // Fails once the rows are computed: a prompt that is scored needs its tokens.
  auto scored = opened(2);
  scored.prompt_tokens = 3;
  EXPECT_FALSE(execute(step_of({scored}, {chunk(1, 1, {6, 7}), rows(2, 0, {8})})));
  EXPECT_EQ(engine_->runs, 2);
  ASSERT_TRUE(execute(step));
  const auto end = execute(step_of({}, {rows(1, 3, {50})}));
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(end->samples.at(0).mean, fake_mean(prompt, kLayers));
}

TEST_F(StageExecutorTest, AMeanIsOfAWholePromptOrRefused) {
  expect_refused(step_of({opened_for_mean(1, 0)}, {rows(1, 0, {5})}), ErrorCode::kInvalidArgument,
                 "sequence 1 wants the mean of 0 rows");
  expect_refused(step_of({opened_for_mean(1, 9)}, {rows(1, 4, {5})}), ErrorCode::kInvalidArgument,
                 "expected its rows from token 0 on");
  ASSERT_TRUE(
      execute(step_of({opened(1), opened_for_mean(2, 3)}, {rows(1, 0, {5}), chunk(2, 0, {5})})));
  auto cut = rows(2, 1, {6});
  cut.operations = {wire::Truncate{1}};
  expect_refused(step_of({}, {cut}), ErrorCode::kInvalidArgument, "without forks, truncations");
  auto fork = rows(3, 1, {6});
  fork.operations = {wire::Fork{SequenceId(1)}};
  expect_refused(step_of({opened_for_mean(3, 3)}, {fork}), ErrorCode::kInvalidArgument,
                 "without forks, truncations");
  engine_->give_no_final_rows();
  expect_refused(step_of({opened_for_mean(4, 3)}, {rows(4, 0, {5})}), ErrorCode::kInvalidArgument,
                 "3 rows of 0 values");
}

TEST_F(StageExecutorTest, SumsAreBounded) {
  wire::Step step;
  for (std::uint64_t id = 1; id <= StageExecutor::kMaxSums; ++id) {
    step.opened.push_back(opened_for_mean(id, 2));
  }
  ASSERT_TRUE(execute(step));
  expect_refused(step_of({opened_for_mean(9999, 2)}, {}), ErrorCode::kResourceExhausted,
                 "4097 prompts would be summed, at most 4096");
  ASSERT_TRUE(execute(step_of({opened(9999)}, {}))) << "others may still begin";
}

TEST_F(StageExecutorTest, WhatDoesNotFitIsRefused) {
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5})})));
  expect_refused(step_of({opened(1)}, {}), ErrorCode::kFailedPrecondition,
                 "sequence 1 is open already");
  expect_refused(step_of({}, {rows(1, 2, {5})}), ErrorCode::kFailedPrecondition,
                 "continues at token 2, this stage holds 1");
  auto two_groups = rows(1, 1, {5});
  two_groups.blocks.push_back(two_groups.blocks.front());
  expect_refused(step_of({}, {two_groups}), ErrorCode::kUnimplemented, "has 2 KV groups");
  auto other_group = step_of({}, {rows(1, 1, {5})});
  other_group.copies = {{1, BlockId(1), BlockId(2)}};
  expect_refused(other_group, ErrorCode::kUnimplemented, "for KV group 1");
  auto no_rows = step_of({}, {});
  no_rows.copies = {{0, BlockId(1), BlockId(2)}};
  expect_refused(no_rows, ErrorCode::kInvalidArgument, "copies blocks and has no rows");
  auto freed = rows(1, 1, {5});
  freed.operations = {wire::Free()};
  expect_refused(step_of({}, {freed}), ErrorCode::kInvalidArgument, "is freed in a step");
  expect_refused(step_of({}, {operations(1, {wire::Free(), wire::Truncate{0}})}),
                 ErrorCode::kInvalidArgument, "operations after it is freed");
}

TEST_F(StageExecutorTest, OpenSequencesAreBounded) {
  constexpr std::size_t kPerStep = 4096;
  std::uint64_t id = 0;
  const auto many = [&] {
    wire::Step step;
    for (std::size_t i = 0; i < kPerStep; ++i) step.opened.push_back(opened(++id));
    return step;
  };
  for (std::size_t i = 0; i < StageExecutor::kMaxOpenSequences / kPerStep; ++i) {
    ASSERT_TRUE(execute(many()));
  }
  expect_refused(many(), ErrorCode::kResourceExhausted, "at most 65536");
}

}  // namespace
}  // namespace paceline::worker
