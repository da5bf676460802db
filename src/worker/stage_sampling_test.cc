// What a stage executor samples: drafts, scores of prompts, penalties.
#include <gmock/gmock.h>

#include <cmath>

#include "sampling/sequence_sampler.h"
#include "worker/stage_executor_testing.h"

namespace paceline::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using StageSamplingTest = StageExecutorTest;

/// The greedy answer comes by steps with drafts as it does without.
TEST_F(StageSamplingTest, DraftsAreCheckedInOneStep) {
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
TEST_F(StageSamplingTest, AStepMayConsistOfDrafts) {
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

TEST_F(StageSamplingTest, APromptIsScoredAgainstItsHistory) {
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
TEST_F(StageSamplingTest, PenaltiesFollowTheSequencesTokens) {
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

TEST_F(StageSamplingTest, BadSamplingIsRefusedWithItsSequence) {
  auto spec = opened(4);
  spec.sampling.logit_bias = {{kFakeVocabulary, 1}};
  expect_refused(step_of({spec}, {}), ErrorCode::kInvalidArgument,
                 "sequence 4: logit_bias: token 97 is outside the vocabulary of 97");
  spec.sampling.logit_bias.clear();
  spec.sampling.top_p = 0;
  expect_refused(step_of({spec}, {}), ErrorCode::kInvalidArgument, "sequence 4: top_p: expected");
}

}  // namespace
}  // namespace paceline::worker
