#include "coordinator/text_generator.h"

#include <gmock/gmock.h>

#include <deque>
#include <map>

#include "text/test_vocabulary.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kEnd = 2;

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return time; }
  TimePoint time;
};

/// Keeps the KV of each sequence as tokens, checks that every step fits it, and samples a script.
class ScriptedRunner final : public StepRunner {
 public:
  explicit ScriptedRunner(FakeClock& clock) : clock_(clock) {}

  Result<StepId> submit(wire::Step step) override {
    if (steps.size() == fail_submit_at) return fail(ErrorCode::kUnavailable, "the worker is gone");
    wire::StepResult result;
    for (const auto& spec : step.opened) EXPECT_TRUE(kv.emplace(spec.sequence, Ids()).second);
    for (const auto& entry : step.sequences) run(entry, result);
    steps.push_back(std::move(step));
    outstanding_.emplace_back(StepId(steps.size()), std::move(result));
    most_outstanding = std::max(most_outstanding, outstanding_.size());
    return StepId(steps.size());
  }

  Result<wire::StepResult> await(StepId step, Deadline) override {
    clock_.time += std::chrono::milliseconds(100);
    if (on_await) on_await(step);
    if (step.value() == fail_await_of) return fail(ErrorCode::kInternal, "the step failed");
    EXPECT_FALSE(outstanding_.empty());
    EXPECT_EQ(outstanding_.front().first, step) << "results are awaited in order";
    auto result = std::move(outstanding_.front().second);
    outstanding_.pop_front();
    return result;
  }

  using Ids = std::vector<std::int64_t>;
  std::size_t outstanding() const { return outstanding_.size(); }

  Ids script;
  std::size_t samples_per_row = 1;
  std::vector<wire::TokenLogprob> top;
  std::function<void(StepId)> on_await;
  std::size_t fail_submit_at = SIZE_MAX;
  std::uint64_t fail_await_of = 0;
  std::vector<wire::Step> steps;
  std::map<SequenceId, Ids> kv;
  std::size_t most_outstanding = 0;

 private:
  void run(const wire::StepSequence& entry, wire::StepResult& result) {
    ASSERT_TRUE(kv.contains(entry.sequence));
    for (const wire::Operation& operation : entry.operations) {
      if (const auto* fork = std::get_if<wire::Fork>(&operation)) {
        kv[entry.sequence] = kv.at(fork->from);
      } else if (const auto* truncate = std::get_if<wire::Truncate>(&operation)) {
        kv[entry.sequence].resize(truncate->tokens);
      } else {
        kv.erase(entry.sequence);
        return;
      }
    }
    Ids& held = kv[entry.sequence];
    ASSERT_EQ(entry.past_tokens, held.size());
    ASSERT_EQ(entry.new_tokens, entry.tokens.size());
    for (const auto& token : entry.tokens) held.push_back(std::get<std::int64_t>(token));
    ASSERT_EQ(entry.blocks.size(), 1U);
    EXPECT_EQ(entry.blocks[0].size(), (held.size() + 3) / 4);
    for (std::size_t i = 0; i < entry.sampled_rows.size() * samples_per_row; ++i) {
      ASSERT_LT(sampled_, script.size());
      wire::Sample sample;
      sample.sequence = entry.sequence;
      sample.token = script[sampled_++];
      sample.logprob = -0.5F;
      sample.logits_digest = sampled_;
      sample.top = top;
      result.samples.push_back(sample);
    }
  }

  FakeClock& clock_;
  std::size_t sampled_ = 0;
  std::deque<std::pair<StepId, wire::StepResult>> outstanding_;
};

class TextGeneratorTest : public testing::Test {
 protected:
  using Ids = ScriptedRunner::Ids;

  static GeneratorOptions options() {
    GeneratorOptions options;
    options.end_tokens = {kEnd};
    options.context_tokens = 64;
    options.logical_block_tokens = 4;
    options.prefill_chunk_tokens = 4;
    options.steps_in_flight = 2;
    return options;
  }
  Ids ids(const std::string& text) const { return tokenizer_.encode(text, false).value(); }
  void script(const std::string& text) {
    runner_.script = ids(text);
    runner_.script.push_back(kEnd);
  }
  GenerationRequest request(Ids prompt) const {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = 50;
    request.sampling.logprobs = 0;
    return request;
  }
  Result<Generation> generate(const GenerationRequest& request) {
    return generator_.generate(
        request,
        [this](std::string_view piece) {
          shown_ += piece;
          if (on_text_) on_text_();
        },
        cancelled_);
  }
  void expect_refused(const GenerationRequest& request, const char* message) {
    const auto refused = generate(request);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr(message));
    EXPECT_TRUE(runner_.steps.empty()) << "refused before any work";
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
  FakeClock clock_;
  ScriptedRunner runner_{clock_};
  TextGenerator generator_{runner_, tokenizer_, clock_, options()};
  std::atomic<bool> cancelled_ = false;
  std::function<void()> on_text_;
  std::string shown_;
};

TEST_F(TextGeneratorTest, AnAnswerIsShownUpToItsEndToken) {
  script("Hi you");
  const auto generation = generate(request({5, 6, 7}));
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->text, "Hi you");
  EXPECT_EQ(shown_, "Hi you");
  EXPECT_EQ(generation->tokens, runner_.script) << "the end token included";
  EXPECT_EQ(generation->finish_reason, FinishReason::kStop);
  EXPECT_EQ(generation->prompt_tokens, 3U);
  EXPECT_EQ(generation->logprobs, std::vector<float>(runner_.script.size(), -0.5F));
  EXPECT_TRUE(generation->logits_digests.empty());
  EXPECT_EQ(runner_.outstanding(), 0U);
}

TEST_F(TextGeneratorTest, ThePromptGoesInChunksOfWhichSomeAreInFlight) {
  script("");
  Ids prompt;
  for (std::int64_t id = 10; id < 28; ++id) prompt.push_back(id);
  ASSERT_TRUE(generate(request(prompt)));
  ASSERT_EQ(runner_.steps.size(), 5U);
  for (std::size_t step = 0; step < 5; ++step) {
    const auto& rows = runner_.steps[step].sequences.at(0);
    EXPECT_EQ(rows.new_tokens, step < 4 ? 4U : 2U);
    EXPECT_EQ(rows.sampled_rows.size(), step < 4 ? 0U : 1U) << "only the last row is sampled";
  }
  EXPECT_EQ(runner_.most_outstanding, 2U);
  EXPECT_EQ(runner_.outstanding(), 0U) << "every result is taken";
  EXPECT_EQ(runner_.kv.begin()->second, prompt);
}

TEST_F(TextGeneratorTest, MaxTokensEndsIt) {
  script("Hello world and more");
  auto limited = request({5});
  limited.max_tokens = 3;
  const auto generation = generate(limited);
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->tokens.size(), 3U);
  EXPECT_EQ(generation->finish_reason, FinishReason::kLength);
  EXPECT_EQ(runner_.steps.size(), 3U) << "no step whose token nobody wants";
  EXPECT_EQ(generation->text, tokenizer_.decode(std::span(runner_.script).first(3), true).value());
}

TEST_F(TextGeneratorTest, TheContextEndsIt) {
  script("abcdefghijklmnopqrstuvwxyz");
  const auto generation = generate(request(Ids(61, 5)));
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->tokens.size(), 3U) << "61 of the prompt and 3 fill the context of 64";
  EXPECT_EQ(generation->finish_reason, FinishReason::kLength);
}

TEST_F(TextGeneratorTest, TheEndTokenMayBeIgnored) {
  runner_.script = {kEnd, kEnd, ids("a")[0]};
  auto ignoring = request({5});
  ignoring.ignore_eos = true;
  ignoring.max_tokens = 3;
  const auto generation = generate(ignoring);
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->tokens.size(), 3U);
  EXPECT_EQ(generation->text, "a") << "special tokens are not shown";
}

TEST_F(TextGeneratorTest, NothingOfAStopStringIsShownAndNoStepFollowsIt) {
  script("one STOP two");
  auto stopping = request({5});
  stopping.stop = {"STOP"};
  const auto generation = generate(stopping);
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->text, "one ");
  EXPECT_EQ(shown_, "one ");
  EXPECT_EQ(generation->finish_reason, FinishReason::kStop);
  EXPECT_EQ(runner_.steps.size(), generation->tokens.size());
  EXPECT_EQ(runner_.outstanding(), 0U);
}

TEST_F(TextGeneratorTest, TheBeginOfAStopStringIsShownWhereItIsNotCompleted) {
  script("one STO");
  auto stopping = request({5});
  stopping.stop = {"STOP"};
  EXPECT_EQ(generate(stopping)->text, "one STO");
}

TEST_F(TextGeneratorTest, ACharacterSplitOverTokensIsShownWhole) {
  script("a\xF0\x9F\x98\x80z");
  std::vector<std::string> pieces;
  const auto show = [&](std::string_view piece) { pieces.emplace_back(piece); };
  ASSERT_TRUE(generator_.generate(request({5}), show, cancelled_));
  EXPECT_THAT(pieces, ElementsAre("a", "\xF0\x9F\x98\x80", "z"));
}

TEST_F(TextGeneratorTest, CancellingEndsItAfterTheTokenThatIsUnderWay) {
  script("abcdefgh");
  on_text_ = [this] { cancelled_ = shown_.size() >= 2; };
  const auto generation = generate(request({5}));
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(generation->text, "abc") << "one step had been sent when the second was shown";
  EXPECT_EQ(runner_.outstanding(), 0U);
  // The next request goes on with what is in the cache.
  cancelled_ = false;
  on_text_ = nullptr;
  runner_.script = {kEnd, kEnd, kEnd, kEnd};
  auto next = request({5});
  next.prompt.insert(next.prompt.end(), generation->tokens.begin(), generation->tokens.end());
  EXPECT_EQ(generate(next)->reused_tokens, 3U);
}

TEST_F(TextGeneratorTest, CancellingEndsALongPromptToo) {
  script("");
  const Ids prompt(40, 9);
  runner_.on_await = [this](StepId step) { cancelled_ = step.value() >= 3; };
  const auto generation = generate(request(prompt));
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(generation->tokens.empty());
  EXPECT_EQ(runner_.steps.size(), 4U) << "not the ten that the prompt has";
  EXPECT_EQ(runner_.outstanding(), 0U);
  runner_.on_await = nullptr;
  // Cancelled before it begins: its sequence is open all the same.
  EXPECT_EQ(generate(request({7, 7, 7, 7, 7, 7}))->finish_reason, FinishReason::kCancelled);
  cancelled_ = false;
  const auto next = generate(request({7, 7, 7, 7, 7, 7}));
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->reused_tokens, 4U);
}

TEST_F(TextGeneratorTest, WhatCannotBeDoneIsRefusedBeforeAnyWork) {
  expect_refused(request({}), "the prompt is empty");
  expect_refused(request(Ids(64, 5)), "the prompt has 64 tokens, the context holds 64");
  auto none = request({5});
  none.max_tokens = 0;
  expect_refused(none, "max tokens");
  auto stop = request({5});
  stop.stop = {""};
  expect_refused(stop, "stop");
}

TEST_F(TextGeneratorTest, TheKvOfASharedPrefixIsUsedAgain) {
  runner_.script = {20, kEnd, 30, kEnd, 40, kEnd};
  ASSERT_TRUE(generate(request({5, 6, 7, 8, 9})));
  // The cache holds the prompt and the token 20, whose successor ended the answer.
  const auto second = generate(request({5, 6, 7, 8, 9, 20, 21}));
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(second->reused_tokens, 6U);
  const wire::Step& step = runner_.steps[3];
  ASSERT_EQ(step.sequences.size(), 2U);
  EXPECT_EQ(step.opened.at(0).sequence, SequenceId(2));
  EXPECT_THAT(step.sequences[0].operations, ElementsAre(wire::Operation(wire::Fork{SequenceId(1)}),
                                                        wire::Operation(wire::Truncate{6})));
  EXPECT_EQ(step.sequences[0].new_tokens, 1U);
  EXPECT_EQ(step.sequences[1].sequence, SequenceId(1));
  EXPECT_THAT(step.sequences[1].operations, ElementsAre(wire::Operation(wire::Free())));
  EXPECT_EQ(runner_.kv.size(), 1U) << "one sequence is open at a time";
  // The same prompt again: its last token is computed, because its logits are needed.
  const auto third = generate(request({5, 6, 7, 8, 9, 20, 21}));
  EXPECT_EQ(third->reused_tokens, 6U);
  EXPECT_EQ(runner_.kv.begin()->second, (Ids{5, 6, 7, 8, 9, 20, 21, 40}));
}

TEST_F(TextGeneratorTest, SamplingAndDigestsAreAskedForOnce) {
  script("ab");
  auto sampled = request({5});
  sampled.sampling.temperature = 0.7;
  sampled.sampling.seed = 11;
  sampled.want_logits_digests = true;
  const auto generation = generate(sampled);
  ASSERT_TRUE(generation);
  EXPECT_THAT(generation->logits_digests, ElementsAre(1, 2, 3));
  sampled.sampling.stop_tokens = {kEnd};
  EXPECT_EQ(runner_.steps[0].opened.at(0).sampling, sampled.sampling);
  EXPECT_EQ(runner_.steps[0].opened[0].prompt_tokens, 1U);
  EXPECT_TRUE(runner_.steps[0].opened[0].history.empty()) << "nothing depends on it";
  EXPECT_TRUE(runner_.steps[0].opened[0].want_logits_digest);
  EXPECT_TRUE(runner_.steps[1].opened.empty());
}

TEST_F(TextGeneratorTest, AStopTokenEndsTheAnswer) {
  runner_.script = {20, 30, 40};
  auto stopped = request({5});
  stopped.sampling.stop_tokens = {30};
  stopped.ignore_eos = true;
  const auto generation = generate(stopped);
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_THAT(generation->tokens, ElementsAre(20, 30));
  EXPECT_EQ(generation->finish_reason, FinishReason::kStop);
  EXPECT_THAT(runner_.steps[0].opened[0].sampling.stop_tokens, ElementsAre(30U))
      << "the model's end is ignored";
}

TEST_F(TextGeneratorTest, PenaltiesAreToldTheHistory) {
  script("a");
  auto penalized = request({5, 6});
  penalized.sampling.repetition_penalty = 1.1;
  ASSERT_TRUE(generate(penalized));
  EXPECT_THAT(runner_.steps[0].opened[0].history, ElementsAre(5, 6));
}

TEST_F(TextGeneratorTest, LogprobsComeWhereTheyAreAskedFor) {
  script("ab");
  runner_.top = {{7, -0.25F}, {8, -1.0F}};
  auto asked = request({5});
  asked.sampling.logprobs = 2;
  const auto with = generate(asked);
  ASSERT_TRUE(with);
  EXPECT_THAT(with->logprobs, ElementsAre(-0.5F, -0.5F, -0.5F));
  EXPECT_EQ(with->top_logprobs, decltype(with->top_logprobs)(3, runner_.top));
  EXPECT_TRUE(with->prompt_logprobs.empty());
  runner_.script.insert(runner_.script.end(), {20, kEnd});
  auto none = request({5});
  none.sampling.logprobs.reset();
  const auto without = generate(none);
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->logprobs.empty() && without->top_logprobs.empty());
}

TEST_F(TextGeneratorTest, APromptIsScoredWholeAndInPieces) {
  runner_.script = Ids(9, 20);
  runner_.script.push_back(kEnd);
  const Ids prompt = {5, 6, 7, 8, 9, 10, 11, 12};
  auto scored = request(prompt);
  scored.want_prompt_logprobs = true;
  const auto generation = generate(scored);
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->prompt_logprobs, std::vector<float>(7, -0.5F)) << "all but the first";
  EXPECT_TRUE(generation->prompt_top_logprobs.empty());
  EXPECT_THAT(generation->tokens, ElementsAre(20, 20, kEnd));
  EXPECT_EQ(runner_.steps[0].opened[0].history, prompt);
  EXPECT_THAT(runner_.steps[0].sequences[0].sampled_rows, ElementsAre(0, 1, 2, 3));
  runner_.script.resize(runner_.script.size() + 8, kEnd);
  const auto again = generate(scored);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->reused_tokens, 0U) << "rows that are not computed cannot be scored";
}

TEST_F(TextGeneratorTest, FailuresOfTheRunnerArePassedOn) {
  script("abc");
  runner_.fail_submit_at = 2;
  const auto lost = generate(request({5}));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), ErrorCode::kUnavailable);
  ScriptedRunner failing(clock_);
  failing.fail_await_of = 1;
  TextGenerator generator(failing, tokenizer_, clock_, options());
  const auto failed = generator.generate(request(Ids(20, 5)), nullptr, cancelled_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "the step failed");
}

TEST_F(TextGeneratorTest, AStepWithTwoSamplesIsAnError) {
  script("abc");
  runner_.samples_per_row = 2;
  const auto result = generate(request({5}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kInternal);
}

TEST_F(TextGeneratorTest, TimesAreThoseOfTheClock) {
  script("abc");  // each result takes 100 ms
  const auto generation = generate(request(Ids(8, 5)));
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->time_to_first_token, std::chrono::milliseconds(200)) << "two chunks";
  EXPECT_EQ(generation->decode_time, std::chrono::milliseconds(300));
  EXPECT_DOUBLE_EQ(generation->decode_tokens_per_second(), 10.0);
  EXPECT_EQ(Generation().decode_tokens_per_second(), 0.0);
}

TEST(FinishReasonTest, HasNames) {
  EXPECT_EQ(to_string(FinishReason::kStop), "stop");
  EXPECT_EQ(to_string(FinishReason::kLength), "length");
  EXPECT_EQ(to_string(FinishReason::kCancelled), "cancelled");
}

}  // namespace
}  // namespace paceline::coordinator
