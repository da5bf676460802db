#include "worker/stage_executor.h"

#include <gmock/gmock.h>

#include <cmath>

#include "sampling/sequence_sampler.h"
#include "wire/int8_rows.h"
#include "worker/fake_engine_testing.h"

namespace paceline::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<BlockId> blocks(std::uint32_t first, std::uint32_t count) {
  std::vector<BlockId> result;
  for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(first + i);
  return result;
}

wire::SequenceSpec opened(std::uint64_t id) {
  wire::SequenceSpec spec;
  spec.sequence = SequenceId(id);
  return spec;
}

/// Rows of sequence `id`, whose blocks begin at 10 x id; the last row is sampled.
wire::StepSequence rows(std::uint64_t id, std::uint32_t past, std::vector<std::int64_t> tokens) {
  wire::StepSequence entry;
  entry.sequence = SequenceId(id);
  entry.past_tokens = past;
  entry.new_tokens = static_cast<std::uint32_t>(tokens.size());
  entry.tokens.assign(tokens.begin(), tokens.end());
  entry.sampled_rows = {entry.new_tokens - 1};
  entry.blocks = {blocks(static_cast<std::uint32_t>(10 * id), 8)};
  return entry;
}

wire::StepSequence operations(std::uint64_t id, std::vector<wire::Operation> list) {
  wire::StepSequence entry;
  entry.sequence = SequenceId(id);
  entry.operations = std::move(list);
  return entry;
}

wire::Step step_of(std::vector<wire::SequenceSpec> specs, std::vector<wire::StepSequence> entries) {
  wire::Step step;
  step.opened = std::move(specs);
  step.sequences = std::move(entries);
  return step;
}

std::vector<std::int64_t> tokens_of(const StepProduct& product) {
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
    EXPECT_THAT(result.error().message(), HasSubstr(message));
    EXPECT_EQ(executor_->open_sequences(), open);
    EXPECT_EQ(engine_->runs, runs);
  }

  std::uint64_t step_ = 0;
  FakeEngine* engine_ = nullptr;
  std::unique_ptr<StageExecutor> executor_;
};

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

/// The greedy answer comes by steps with drafts as it does without.
TEST_F(StageExecutorTest, DraftsAreCheckedInOneStep) {
  const auto answer = fake_answer({5, 6, 7}, kLayers, 6);
  const auto right = [&](std::size_t i) { return static_cast<std::uint32_t>(answer[i]); };
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})})));
  auto drafted = rows(1, 3, {answer[0], answer[1], answer[2], 96 - answer[3]});
  drafted.sampled_rows = {0, 1, 2, 3};
  drafted.drafts = {right(1), right(2), 96 - right(3)};
  const auto product = execute(step_of({}, {drafted}));
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_THAT(tokens_of(*product), ElementsAre(answer[1], answer[2], answer[3]));
  EXPECT_EQ(product->samples[2].row, 2U);
  // The rejected row is in the KV cache: what was planned on it gives nothing, and is no failure.
  const auto astray = execute(step_of({opened(2)}, {rows(1, 7, {1}), rows(2, 0, {5, 6, 7})}));
  ASSERT_TRUE(astray) << astray.error().message();
  EXPECT_THAT(tokens_of(*astray), ElementsAre(answer[0]));
  EXPECT_EQ(astray->samples[0].sequence, SequenceId(2));
  auto after = rows(1, 6, {answer[3], answer[4]});
  after.operations = {wire::Truncate{6}};
  after.sampled_rows = {0, 1};
  after.drafts = {right(4)};
  const auto all = execute(step_of({}, {after}));
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_THAT(tokens_of(*all), ElementsAre(answer[4], answer[5])) << "all accepted, and one more";
  drafted.sampled_rows = {3};
  drafted.past_tokens = 8;
  const auto refused = execute(step_of({}, {drafted}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("3 drafts and 1 sampled rows"));
}

/// Drafts that go on before those of the step before are checked.
TEST_F(StageExecutorTest, AStepMayConsistOfDrafts) {
  const auto answer = fake_answer({5, 6, 7}, kLayers, 8);
  const auto drafts = [&](std::uint32_t past, std::vector<std::int64_t> tokens, bool all) {
    auto entry = rows(1, past, tokens);
    entry.sampled_rows.clear();
    for (std::uint32_t row = 0; row < tokens.size(); ++row) entry.sampled_rows.push_back(row);
    entry.drafts.assign(tokens.begin() + (all ? 0 : 1), tokens.end());
    return step_of({}, {entry});
  };
  ASSERT_TRUE(execute(step_of({opened(1)}, {rows(1, 0, {5, 6, 7})})));
  ASSERT_TRUE(execute(drafts(3, {answer[0], answer[1]}, false)));
  const auto right = execute(drafts(5, {answer[2], answer[3]}, true));
  ASSERT_TRUE(right) << right.error().message();
  EXPECT_THAT(tokens_of(*right), ElementsAre(answer[3], answer[4]));
  const auto wrong = execute(drafts(7, {96 - answer[4], answer[5]}, true));
  ASSERT_TRUE(wrong) << wrong.error().message();
  EXPECT_TRUE(wrong->samples.empty()) << "its first row never was";
  const auto after_wrong = execute(drafts(9, {answer[6]}, true));
  ASSERT_TRUE(after_wrong) << after_wrong.error().message();
  EXPECT_TRUE(after_wrong->samples.empty());
  auto cut = drafts(7, {answer[4], answer[5]}, false);
  cut.sequences[0].operations = {wire::Truncate{7}};
  const auto product = execute(cut);
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_THAT(tokens_of(*product), ElementsAre(answer[5], answer[6]));
  auto unsampled = drafts(4, {5}, true);
  unsampled.sequences[0].sequence = SequenceId(2);
  unsampled.opened = {opened(2)};
  const auto refused = execute(unsampled);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("sequence 2 guesses the token at position 4"));
}

TEST_F(StageExecutorTest, APromptIsScoredAgainstItsHistory) {
  const auto answer = fake_answer({5, 6, 7}, kLayers, 1);
  auto spec = opened(1);
  spec.prompt_tokens = 3;
  spec.history = {5, 6, 7};
  spec.sampling.logprobs = 2;
  auto all = rows(1, 0, {5, 6, 7});
  all.sampled_rows = {0, 1, 2};
  const auto product = execute(step_of({spec}, {all}));
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_THAT(tokens_of(*product), ElementsAre(6, 7, answer[0]));
  // One logit of 97 is 1, the others are 0.
  const double sum = std::exp(1.0) + 96;
  const bool is_likely = fake_answer({5}, kLayers, 1)[0] == 6;
  EXPECT_NEAR(product->samples[0].logprob, (is_likely ? 1 : 0) - std::log(sum), 1e-5);
  ASSERT_EQ(product->samples[2].top.size(), 2U);
  EXPECT_EQ(product->samples[2].top[0].token, answer[0]);
  EXPECT_NEAR(product->samples[2].top[0].logprob, 1 - std::log(sum), 1e-5);
  spec.sequence = SequenceId(2);
  spec.history.clear();
  all.sequence = SequenceId(2);
  const auto refused = execute(step_of({spec}, {all}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("sequence 2: the token at position 1 is to be"));
  EXPECT_EQ(executor_->open_sequences(), 1U);
}

// With a penalty that forbids what was said, the fake model's answer never repeats a token: also
// after a fork, a truncation, a failed step and a reopening.
TEST_F(StageExecutorTest, PenaltiesFollowTheSequencesTokens) {
  auto spec = opened(1);
  spec.prompt_tokens = 2;
  spec.sampling.presence_penalty = 2;
  auto prefill = rows(1, 0, {5, 6});
  const auto first = execute(step_of({spec}, {prefill}));
  ASSERT_TRUE(first) << first.error().message();
  std::vector<std::int64_t> said = tokens_of(*first);
  const auto say = [&](std::uint64_t id, std::uint32_t past, std::int64_t token) {
    auto entry = rows(id, past, {token});
    entry.blocks = {blocks(10, 8)};
    return step_of({}, {entry});
  };
  for (std::uint32_t past = 2; past < 12; ++past) {
    engine_->failure = Error(ErrorCode::kInternal, "once");
    EXPECT_FALSE(execute(say(1, past, said.back())));
    engine_->failure.reset();
    const auto next = execute(say(1, past, said.back()));
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_THAT(said, testing::Not(testing::Contains(next->samples.at(0).token)));
    said.push_back(next->samples.at(0).token);
  }
  // Back to position 8: the token that was sampled there stays, the later ones may come again.
  auto back = say(1, 8, said[6]);
  back.sequences[0].operations = {wire::Truncate{8}};
  EXPECT_EQ(tokens_of(execute(back).value()).at(0), said[7]);
  // A fork without a history of its own goes on with its parent's.
  spec.sequence = SequenceId(2);
  auto forked = say(2, 9, said[7]);
  forked.opened = {spec};
  forked.sequences[0].operations = {wire::Fork{SequenceId(1)}};
  EXPECT_EQ(tokens_of(execute(forked).value()).at(0), said[8]);
  // Made anew from its tokens, as after a recovery.
  spec.sequence = SequenceId(3);
  spec.history = {5, 6};
  spec.history.insert(spec.history.end(), said.begin(), said.begin() + 8);
  auto reopened = say(3, 9, said[7]);
  reopened.opened = {spec};
  reopened.sequences[0].operations = {wire::Fork{SequenceId(1)}, wire::Truncate{9}};
  EXPECT_EQ(tokens_of(execute(reopened).value()).at(0), said[8]);
}

TEST_F(StageExecutorTest, BadSamplingIsRefusedWithItsSequence) {
  auto spec = opened(4);
  spec.sampling.logit_bias = {{kFakeVocabulary, 1}};
  expect_refused(step_of({spec}, {}), ErrorCode::kInvalidArgument,
                 "sequence 4: logit_bias: token 97 is outside the vocabulary of 97");
  spec.sampling.logit_bias.clear();
  spec.sampling.top_p = 0;
  expect_refused(step_of({spec}, {}), ErrorCode::kInvalidArgument, "sequence 4: top_p: expected");
}

/// A stage between others.
class MiddleStageTest : public StageExecutorTest {
 protected:
  explicit MiddleStageTest(LinkPrecision links = LinkPrecision::kNative)
      : StageExecutorTest({1, 2}, links) {}

  static wire::Tensor boundary(std::uint64_t row_count) {
    std::vector<float> numbers(row_count * 2, 3.0F);
    return {"hidden",
            ElementType::kF32,
            {row_count, 2},
            wire::SharedBytes::copy_of(std::as_bytes(std::span(numbers)))};
  }
  static wire::Step one_row() {
    auto entry = rows(1, 0, {0});
    entry.tokens.clear();
    return step_of({opened(1)}, {entry});
  }
};

TEST_F(MiddleStageTest, BoundaryTensorsComeInAndGoOut) {
  auto entry = rows(1, 0, {0, 0, 0});
  entry.tokens.clear();
  const auto product = execute(step_of({opened(1)}, {entry}), {boundary(3)});
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_TRUE(product->samples.empty());
  ASSERT_EQ(product->boundaries.size(), 1U);
  const wire::Tensor& tensor = product->boundaries[0];
  EXPECT_EQ(tensor.name, "hidden");
  EXPECT_THAT(tensor.shape, ElementsAre(3, 2));
  EXPECT_EQ(tensor.data.size(), 24U);
  EXPECT_NE(tensor.data, boundary(3).data);
}

TEST_F(MiddleStageTest, BoundariesThatDoNotFitAreRefused) {
  auto named = boundary(1);
  named.name = "other";
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "has no boundary tensor hidden", {named});
  auto typed = boundary(1);
  typed.type = ElementType::kI32;
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "of type i32, f32 is expected", {typed});
  auto shaped = boundary(1);
  shaped.shape = {1, 1, 2};
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "rows of shape [1, 2], [2] is expected",
                 {shaped});
  auto additional = boundary(1);
  additional.name = "more";
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "2 boundary tensors, 1 are expected",
                 {boundary(1), additional});
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "no boundary tensor", {});
}

/// The same over links in int8.
class Int8StageTest : public MiddleStageTest {
 protected:
  Int8StageTest() : MiddleStageTest(LinkPrecision::kInt8) {}
};

TEST_F(Int8StageTest, TheEngineSeesNumbersAndTheLinksCodes) {
  const auto coded = wire::to_int8(boundary(1));
  ASSERT_TRUE(coded) << coded.error().message();
  const auto product = execute(one_row(), {*coded});
  ASSERT_TRUE(product) << product.error().message();
  ASSERT_EQ(product->boundaries.size(), 1U);
  const wire::Tensor& tensor = product->boundaries[0];
  EXPECT_EQ(tensor.name, "hidden");
  EXPECT_EQ(tensor.type, ElementType::kI8);
  EXPECT_THAT(tensor.shape, ElementsAre(1, 4));
  StageExecutor native(std::make_unique<FakeEngine>(LayerRange{1, 2}, kLayers));
  const auto expected = native.execute(StepId(1), one_row(), std::vector{boundary(1)});
  ASSERT_TRUE(expected) << expected.error().message();
  EXPECT_EQ(tensor, wire::to_int8(expected->boundaries[0]).value());
}

TEST_F(Int8StageTest, BoundariesThatDoNotFitAreRefused) {
  expect_refused(one_row(), ErrorCode::kInvalidArgument,
                 "is of type f32 and shape [1, 2], i8 and [rows, 4] are expected", {boundary(1)});
  auto other = wire::to_int8(boundary(1)).value();
  other.name = "other";
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "has no boundary tensor hidden", {other});
}

}  // namespace
}  // namespace paceline::worker
