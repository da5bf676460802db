#include "sampling/sequence_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace paceline::sampling {
namespace {

using Tokens = std::vector<std::uint32_t>;

SequenceSampler make(const SamplingSpec& spec, std::uint64_t prompt_tokens, const Tokens& tokens,
                     std::uint64_t vocabulary_size) {
  auto sampler = SequenceSampler::create(spec, prompt_tokens, tokens, vocabulary_size);
  EXPECT_TRUE(sampler) << sampler.error().message();
  return *std::move(sampler);
}

class SequenceSamplerTest : public testing::Test {
 protected:
  /// The greedy choice.
  std::uint32_t choose(const SequenceSampler& sampler, const std::vector<float>& logits,
                       std::uint64_t position, TokenMask mask = {}) {
    const auto token = sampler.draw(logits, position, workspace_, mask);
    EXPECT_TRUE(token) << token.error().message();
    return token.value_or(999);
  }
  Workspace workspace_;
};

// As in Hugging Face's processor: positive logits are divided, others multiplied, once for a token
// however often it stood in prompt or answer.
TEST_F(SequenceSamplerTest, RepetitionPenaltyCountsPromptAndAnswer) {
  SamplingSpec spec;
  spec.repetition_penalty = 2;
  auto sampler = make(spec, 2, {0, 0}, 3);
  EXPECT_EQ(choose(sampler, {3.0F, 1.6F, 1.0F}, 2), 1U) << "1.5, once halved, not .75";
  EXPECT_EQ(choose(sampler, {3.4F, 1.6F, 1.0F}, 2), 0U);
  EXPECT_EQ(choose(sampler, {-1.0F, -1.9F, -3.0F}, 2), 1U);
  sampler.accept(1);
  EXPECT_EQ(choose(sampler, {3.0F, 1.6F, 1.0F}, 3), 0U) << "1.5, .8, 1";
}

// As OpenAI documents them: logit - count x frequency - (count > 0) x presence, of the answer.
TEST_F(SequenceSamplerTest, PresenceAndFrequencyCountTheAnswerOnly) {
  SamplingSpec spec;
  spec.presence_penalty = 1;
  auto presence = make(spec, 3, {0, 0, 1}, 2);
  EXPECT_EQ(choose(presence, {1.5F, 1.0F}, 3), 0U) << "the prompt does not count";
  presence.accept(0);
  presence.accept(0);
  EXPECT_EQ(choose(presence, {1.5F, 1.0F}, 5), 1U);
  EXPECT_EQ(choose(presence, {2.1F, 1.0F}, 5), 0U) << "once, however often";
  spec.presence_penalty = 0;
  spec.frequency_penalty = 0.5;
  auto frequency = make(spec, 3, {0, 0, 1}, 2);
  frequency.accept(0);
  EXPECT_EQ(choose(frequency, {1.6F, 1.0F}, 4), 0U);
  frequency.accept(0);
  EXPECT_EQ(choose(frequency, {1.6F, 1.0F}, 5), 1U);
  spec.frequency_penalty = -0.5;
  auto encouraged = make(spec, 0, {1}, 2);
  EXPECT_EQ(choose(encouraged, {1.2F, 1.0F}, 1), 1U);
}

TEST_F(SequenceSamplerTest, BiasesAddAndForbid) {
  SamplingSpec spec;
  spec.logit_bias = {{2, 3.5F}, {1, -std::numeric_limits<float>::infinity()}};
  const auto sampler = make(spec, 0, {}, 3);
  EXPECT_EQ(choose(sampler, {3.0F, 9.0F, 0.0F}, 0), 2U);
  EXPECT_EQ(choose(sampler, {4.0F, 9.0F, 0.0F}, 0), 0U);
  spec.logit_bias = {{0, -std::numeric_limits<float>::infinity()}};
  const auto none = make(spec, 0, {}, 1).draw(std::vector<float>{1.0F}, 4, workspace_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "no token is allowed at position 4");
}

TEST_F(SequenceSamplerTest, AMaskLeavesItsTokens) {
  std::vector<float> logits(70, 1.0F);
  logits[3] = 9;
  const Tokens mask = {1U << 7, 0, 1U << 2};
  const auto sampler = make({}, 0, {}, 70);
  EXPECT_EQ(choose(sampler, logits, 0), 3U);
  EXPECT_EQ(choose(sampler, logits, 0, mask), 7U);
  logits[66] = 2;
  EXPECT_EQ(choose(sampler, logits, 0, mask), 66U);
  EXPECT_EQ(choose(sampler, logits, 0, TokenMask(mask).first(1)), 7U) << "words that are not there";
}

TEST_F(SequenceSamplerTest, NoStopTokenBeforeTheFewest) {
  SamplingSpec spec;
  spec.stop_tokens = {1};
  spec.min_tokens = 2;
  const auto sampler = make(spec, 5, {}, 2);
  EXPECT_EQ(choose(sampler, {1, 2}, 5), 0U);
  EXPECT_EQ(choose(sampler, {1, 2}, 6), 0U);
  EXPECT_EQ(choose(sampler, {1, 2}, 7), 1U);
  EXPECT_TRUE(sampler.ends(1));
  EXPECT_FALSE(sampler.ends(0));
}

TEST_F(SequenceSamplerTest, LogprobsAreOfTheModelsOwnDistribution) {
  SamplingSpec spec;
  spec.logit_bias = {{2, 50.0F}};
  spec.logprobs = 2;
  const auto sample = make(spec, 0, {}, 3).sample(std::vector<float>{1, 2, 0}, 0, workspace_);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->token, 2);
  const double sum = std::exp(1.0) + std::exp(2.0) + 1;
  EXPECT_NEAR(sample->logprob, -std::log(sum), 1e-9);
  ASSERT_EQ(sample->top.size(), 2U);
  EXPECT_EQ(sample->top[0].token, 1U);
  EXPECT_NEAR(sample->top[0].logprob, 2 - std::log(sum), 1e-9);
  EXPECT_EQ(sample->top[1].token, 0U);
}

TEST_F(SequenceSamplerTest, ATokenOfThePromptIsScored) {
  SamplingSpec spec;
  spec.logprobs = 0;
  const auto sampler = make(spec, 2, {1, 0}, 2);
  const auto scored = sampler.score(std::vector<float>{0, 0}, 1, workspace_);
  ASSERT_TRUE(scored);
  EXPECT_EQ(scored->token, 0);
  EXPECT_NEAR(scored->logprob, -std::log(2.0), 1e-9);
  const auto beyond = sampler.score(std::vector<float>{0, 0}, 2, workspace_);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(make(spec, 2, {}, 2).score(std::vector<float>{0, 0}, 1, workspace_));
}

TEST_F(SequenceSamplerTest, WhatDependsOnUnknownTokensIsRefused) {
  SamplingSpec spec;
  spec.repetition_penalty = 1.5;
  const auto missing = make(spec, 4, {}, 2).draw(std::vector<float>(2), 4, workspace_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(missing.error().message(),
            "repetition_penalty: needs the prompt's tokens, the history has none");
  const auto outside = SequenceSampler::create(spec, 1, Tokens{10}, 10);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().message(), "history: token 10 is outside the vocabulary of 10");
  const auto late = make(spec, 1, {3}, 2 + 2).draw(std::vector<float>(4), 3, workspace_);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), ErrorCode::kFailedPrecondition);
  const auto width = make({}, 0, {}, 5).draw(std::vector<float>(4), 0, workspace_);
  ASSERT_FALSE(width);
  EXPECT_EQ(width.error().message(), "logits: expected 5, got 4");
}

TEST_F(SequenceSamplerTest, AForkKnowsWhatItsParentDoes) {
  SamplingSpec spec;
  spec.repetition_penalty = 2;
  auto parent = make(spec, 1, {0}, 3);
  parent.accept(1);
  auto child = make(spec, 1, {}, 3);
  child.inherit(parent);
  EXPECT_EQ(choose(child, {3.0F, 3.0F, 1.6F}, 2), 2U);
  child.truncate(1);
  EXPECT_EQ(choose(child, {3.0F, 2.9F, 1.6F}, 1), 1U);
  EXPECT_EQ(parent.history().end_position(), 2U);
}

// A sampler that is made from the tokens later does what the one that saw them come does.
TEST_F(SequenceSamplerTest, ItsStateIsAFunctionOfItsTokens) {
  SamplingSpec spec;
  spec.temperature = 1;
  spec.seed = 3;
  spec.repetition_penalty = 1.3;
  spec.frequency_penalty = 0.4;
  std::vector<float> logits(40);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 17) % 40) * 0.1F;
  }
  Tokens tokens = {1, 2, 3};
  auto sampler = make(spec, 3, tokens, 40);
  std::set<std::uint32_t> seen;
  for (std::uint64_t position = 3; position < 60; ++position) {
    const auto token = choose(sampler, logits, position);
    EXPECT_EQ(choose(make(spec, 3, tokens, 40), logits, position), token);
    sampler.accept(31);
    sampler.accept(7);
    sampler.truncate(position);
    EXPECT_EQ(choose(sampler, logits, position), token) << "what was cut does not count";
    tokens.push_back(token);
    sampler.accept(token);
    seen.insert(token);
  }
  EXPECT_GT(seen.size(), 20U);
  sampler.truncate(0);
  EXPECT_EQ(sampler.history().end_position(), 3U) << "what it was made with stays";
}

}  // namespace
}  // namespace paceline::sampling
