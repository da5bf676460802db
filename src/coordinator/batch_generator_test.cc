#include "coordinator/batch_generator.h"

#include <gmock/gmock.h>

#include "coordinator/batch_generator_testing.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(BatchGeneratorTest, AnAnswerIsShownUpToItsEndToken) {
  script("Hi you", 3);
  const auto generation = generate(request({5, 6, 7}));
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->text, "Hi you");
  EXPECT_EQ(shown_, "Hi you");
  EXPECT_EQ(generation->tokens, alone({5, 6, 7}, 50)) << "the end token included";
  EXPECT_EQ(generation->finish_reason, FinishReason::kStop);
  EXPECT_EQ(generation->prompt_tokens, 3U);
  EXPECT_EQ(generation->logprobs, std::vector<float>(generation->tokens.size(), -0.5F));
  EXPECT_TRUE(generation->logits_digests.empty());
}

TEST_F(BatchGeneratorTest, MaxTokensAndTheContextEndIt) {
  auto limited = request({5});
  limited.max_tokens = 3;
  const auto generation = generate(limited);
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->tokens, alone({5}, 3));
  EXPECT_EQ(generation->finish_reason, FinishReason::kLength);
  const auto full = generate(request(Ids(61, 5)));
  ASSERT_TRUE(full) << full.error().message();
  EXPECT_EQ(full->tokens.size(), 3U) << "61 of the prompt and 3 fill the context of 64";
  EXPECT_EQ(full->finish_reason, FinishReason::kLength);
}

TEST_F(BatchGeneratorTest, TheEndTokenMayBeIgnored) {
  script("", 1);
  auto ignoring = request({5});
  ignoring.ignore_eos = true;
  ignoring.max_tokens = 3;
  const auto generation = generate(ignoring);
  ASSERT_TRUE(generation);
  EXPECT_THAT(generation->tokens, ElementsAre(kEnd, kEnd, kEnd));
  EXPECT_EQ(generation->text, "") << "special tokens are not shown";
}

TEST_F(BatchGeneratorTest, NothingOfAStopStringIsShown) {
  script("one STOP two", 1);
  auto stopping = request({5});
  stopping.stop = {"STOP"};
  const auto generation = generate(stopping);
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->text, "one ");
  EXPECT_EQ(shown_, "one ");
  EXPECT_EQ(generation->finish_reason, FinishReason::kStop);
  shown_.clear();
  script("one STO", 1);
  EXPECT_EQ(generate(stopping)->text, "one STO") << "its begin is shown where it is not completed";
}

TEST_F(BatchGeneratorTest, ACharacterSplitOverTokensIsShownWhole) {
  script("a\xF0\x9F\x98\x80z", 1);
  std::vector<std::string> pieces;
  const auto show = [&](std::string_view piece) { pieces.emplace_back(piece); };
  ASSERT_TRUE(coordinator::generate(generator(), request({5}), show, cancelled_));
  EXPECT_THAT(pieces, ElementsAre("a", "\xF0\x9F\x98\x80", "z"));
}

TEST_F(BatchGeneratorTest, CancellingEndsIt) {
  std::atomic<int> shown = 0;
  const auto show = [&](std::string_view) {
    if (++shown == 2) {
      cancelled_ = true;
      chain_.hold(true);
    }
  };
  script("abcdefghijklmnop", 1);
  const auto generation = coordinator::generate(generator(), request({5}), show, cancelled_);
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->finish_reason, FinishReason::kCancelled);
  EXPECT_THAT(generation->text, testing::StartsWith("ab"));
  chain_.hold(false);
  cancelled_ = false;
  script("ok", 1);
  EXPECT_EQ(generate(request({6}))->text, "ok");
  EXPECT_LE(chain_.open_sequences(), 1U) << "the stages have heard of the cancelled one";
}

TEST_F(BatchGeneratorTest, AllThatIsUnderWayCanBeEnded) {
  const auto show = [&](std::string_view) {
    chain_.hold(true);
    generator().end_all(Error(ErrorCode::kUnavailable, "was unloaded"));
  };
  script("abcdefghijklmnop", 1);
  const auto generation = coordinator::generate(generator(), request({5}), show, cancelled_);
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().message(), "was unloaded");
  chain_.hold(false);
  EXPECT_EQ(generate(request({6})).error().message(), "was unloaded");
}

TEST_F(BatchGeneratorTest, WhatCannotBeDoneIsRefusedBeforeAnyWork) {
  expect_refused(request({}), "prompt");
  expect_refused(request(Ids(64, 5)), "the prompt has 64 tokens, the context holds 64");
  auto none = request({5});
  none.max_tokens = 0;
  expect_refused(none, "max tokens");
  auto stop = request({5});
  stop.stop = {""};
  expect_refused(stop, "stop");
  expect_refused(request({5, kVocabulary}), "the prompt has token 50000, expected 0 to 49999");
  auto bias = request({5});
  bias.sampling.logit_bias = {{kVocabulary, 1}};
  expect_refused(bias, "logit_bias");
  bias.sampling.logit_bias.assign(1025, {1, 1});
  expect_refused(bias, "1025");
  auto many = request({5});
  many.sampling.stop_tokens.assign(256, 1);
  expect_refused(many, "stop_tokens: 256, expected at most 255");
}

TEST_F(BatchGeneratorTest, AStopTokenEndsTheAnswer) {
  auto stopped = request({5});
  stopped.sampling.stop_tokens = {static_cast<std::uint32_t>(alone({5}, 3).back())};
  stopped.ignore_eos = true;
  const auto generation = generate(stopped);
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->tokens, alone({5}, 3));
  EXPECT_EQ(generation->finish_reason, FinishReason::kStop);
  EXPECT_EQ(chain_.steps[0].opened[0].sampling.stop_tokens, stopped.sampling.stop_tokens)
      << "the model's end is ignored";
}

TEST_F(BatchGeneratorTest, PenaltiesAreToldTheHistory) {
  auto penalized = request({5, 6});
  penalized.max_tokens = 2;
  penalized.sampling.repetition_penalty = 1.1;
  ASSERT_TRUE(generate(penalized));
  EXPECT_THAT(chain_.steps[0].opened[0].history, ElementsAre(5, 6));
}

TEST_F(BatchGeneratorTest, LogprobsComeWhereTheyAreAskedFor) {
  chain_.top = {{7, -0.25F}, {8, -1.0F}};
  auto asked = request({5});
  asked.max_tokens = 3;
  asked.sampling.logprobs = 2;
  const auto with = generate(asked);
  ASSERT_TRUE(with);
  EXPECT_EQ(with->logprobs, std::vector<float>(3, -0.5F));
  EXPECT_EQ(with->top_logprobs, decltype(with->top_logprobs)(3, chain_.top));
  EXPECT_TRUE(with->prompt_logprobs.empty());
  asked.sampling.logprobs.reset();
  const auto without = generate(asked);
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->logprobs.empty() && without->top_logprobs.empty());
}

TEST_F(BatchGeneratorTest, APromptIsScoredWholeAndInPieces) {
  auto scored = request({5, 6, 7, 8, 9, 10, 11, 12, 13});
  scored.max_tokens = 2;
  scored.choices = 1;
  scored.want_prompt_logprobs = true;
  for (int run = 0; run < 2; ++run) {
    const auto generation = generate(scored);
    ASSERT_TRUE(generation) << generation.error().message();
    EXPECT_THAT(generation->prompt_logprobs, ElementsAre(-1, -2, -3, -4, -5, -6, -7, -8));
    EXPECT_TRUE(generation->prompt_top_logprobs.empty());
    EXPECT_EQ(generation->tokens, alone(scored.prompt, 2));
    EXPECT_EQ(generation->reused_tokens, 0U) << "rows that are not computed cannot be scored";
  }
  EXPECT_EQ(chain_.steps[0].opened[0].history, scored.prompt);
  EXPECT_THAT(chain_.steps[0].sequences[0].sampled_rows, ElementsAre(0, 1, 2, 3))
      << "no more than the options allow";
}

TEST_F(BatchGeneratorTest, TheKvOfASharedPrefixIsUsedAgain) {
  const Ids prompt = {5, 6, 7, 8, 9, 10, 11, 12, 13};
  auto first = request(prompt);
  first.max_tokens = 2;
  ASSERT_TRUE(generate(first));
  const auto again = generate(first);
  ASSERT_TRUE(again);
  EXPECT_GE(again->reused_tokens, 8U);
  EXPECT_EQ(again->tokens, alone(prompt, 2));
  auto other_tenant = first;
  other_tenant.cache_salt = "ben";
  EXPECT_EQ(generate(other_tenant)->reused_tokens, 0U);
}

TEST_F(BatchGeneratorTest, SamplingAndDigestsAreAskedForOnce) {
  script("ab", 1);
  auto sampled = request({5});
  sampled.sampling.temperature = 0.7;
  sampled.sampling.seed = 11;
  sampled.want_logits_digests = true;
  const auto generation = generate(sampled);
  ASSERT_TRUE(generation);
  EXPECT_THAT(generation->logits_digests, ElementsAre(1, 2, 3));
  sampled.sampling.stop_tokens = {kEnd};
  EXPECT_EQ(chain_.steps.at(0).opened.at(0).sampling, sampled.sampling);
  EXPECT_EQ(chain_.steps[0].opened[0].prompt_tokens, 1U);
  EXPECT_TRUE(chain_.steps[0].opened[0].history.empty()) << "nothing depends on it";
  EXPECT_TRUE(chain_.steps[0].opened[0].want_logits_digest);
  EXPECT_TRUE(chain_.steps.at(1).opened.empty());
}

TEST_F(BatchGeneratorTest, AFailureOfTheChainEndsAllAndIsWhatLatersGet) {
  chain_.fail_at = 2;
  const auto failed = generate(request(Ids(20, 5)));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::kUnavailable);
  const auto next = generate(request({5}));
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().message(), failed.error().message());
}

TEST_F(BatchGeneratorTest, AMeanIsOfThePromptAndNothingElseCounts) {
  auto asked = request({5, 6, 7, 8, 9, 10, 11, 12, 13});
  ASSERT_TRUE(generate(asked)) << "its prompt is cached";
  shown_.clear();
  asked.want_mean = true;
  asked.choices = 3;
  asked.sampling.temperature = 1;
  asked.sampling.grammar = GrammarSpec();
  asked.want_prompt_logprobs = true;
  asked.stop = {"x"};
  const std::size_t before = chain_.steps.size();
  const auto generation = generate(asked);
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->mean, FakeChain::mean_of(asked.prompt));
  EXPECT_THAT(generation->tokens, testing::IsEmpty());
  EXPECT_EQ(shown_, "") << "the token behind the prompt is nobody's";
  EXPECT_EQ(generation->reused_tokens, 0U);
  const auto opened =
      std::find_if(chain_.steps.begin() + static_cast<std::ptrdiff_t>(before), chain_.steps.end(),
                   [](const auto& step) { return !step.opened.empty(); });
  ASSERT_NE(opened, chain_.steps.end());
  EXPECT_TRUE(opened->opened[0].want_mean);
  EXPECT_EQ(opened->opened[0].prompt_tokens, 9U);
  EXPECT_EQ(opened->opened[0].sampling, sampling::SamplingSpec()) << "greedy, no end, no form";
  EXPECT_THAT(opened->opened[0].history, testing::IsEmpty());
}

TEST_F(BatchGeneratorTest, AMeanOfAnotherSizeEndsTheChain) {
  chain_.gives_means = false;
  auto asked = request({5, 6});
  asked.want_mean = true;
  const auto failed = generate(asked);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::kInternal);
  EXPECT_THAT(failed.error().message(), HasSubstr("a mean of 0 values for a prompt, expected 2"));
}

TEST_F(BatchGeneratorTest, AGrammarBringsTheTokensBeforeIt) {
  script("Hi you", 3);
  auto asked = request({5, 6, 7});
  asked.sampling.grammar = GrammarSpec{GrammarKind::kRegex, "Hi.*"};
  ASSERT_TRUE(generate(asked));
  const wire::SequenceSpec& spec = chain_.steps.front().opened.at(0);
  EXPECT_EQ(spec.sampling.grammar, asked.sampling.grammar);
  EXPECT_THAT(spec.history, ElementsAre(5, 6, 7));
}

TEST_F(BatchGeneratorTest, AGrammarThatGetsNoFurtherFailsItsRequestAlone) {
  script("Hi you", 3);
  auto asked = request({5, 6, 7});
  asked.sampling.grammar = GrammarSpec{GrammarKind::kRegex, "Hi.*"};
  asked.choices = 1;
  chain_.sample_failure = "grammar: too complex";
  const auto failed = generate(asked);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message(), "grammar: too complex");
  const auto other = generate(request({5, 6, 7}));
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(other->text, "Hi you");
}

TEST_F(BatchGeneratorTest, AGrammarNeedsATokenToEndWith) {
  auto asked = request({5});
  asked.sampling.grammar = GrammarSpec();
  asked.ignore_eos = true;
  expect_refused(asked, "grammar: expected a token that ends the answer");
  asked.ignore_eos = false;
  asked.sampling.min_tokens = 2;
  expect_refused(asked, "min_tokens: expected 0 with a grammar");
}

}  // namespace
}  // namespace paceline::coordinator
