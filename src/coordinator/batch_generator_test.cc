#include "coordinator/batch_generator.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <random>

#include "coordinator/answer_waiter.h"
#include "coordinator/fake_chain_testing.h"
#include "text/test_vocabulary.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kEnd = 2;
constexpr std::uint32_t kBlocks = 32;
constexpr std::uint32_t kVocabulary = 50000;

class BatchGeneratorTest : public testing::Test {
 protected:
  static BatchOptions options() {
    BatchOptions options;
    options.end_tokens = {kEnd};
    options.scheduler.context_tokens = 64;
    options.scheduler.kv_blocks = kBlocks;
    options.scheduler.block_tokens = FakeChain::kBlockTokens;
    options.scheduler.max_scored_rows = 4;
    options.vocabulary_size = kVocabulary;
    options.speculation = Speculation::kAlways;
    options.mean_width = FakeChain::kMeanWidth;
    return options;
  }
  BatchGenerator& generator() {
    if (!generator_) {
      generator_ = std::make_unique<BatchGenerator>(chain_, 1, &tokenizer_, clock_, options());
    }
    return *generator_;
  }
  Ids ids(const std::string& text) const { return tokenizer_.encode(text, false).value(); }
  /// After a prompt of `prompt_tokens` the model says `text`, then its end token.
  void script(const std::string& text, std::size_t prompt_tokens) {
    auto answer = ids(text);
    answer.push_back(kEnd);
    chain_.model = [answer, prompt_tokens](const Ids& tokens) {
      const std::size_t at = tokens.size() - prompt_tokens;
      return at < answer.size() ? answer[at] : kEnd;
    };
  }
  static GenerationRequest request(Ids prompt) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = 50;
    request.sampling.logprobs = 0;
    return request;
  }
  Result<Generation> generate(const GenerationRequest& request) {
    return coordinator::generate(
        generator(), request, [this](std::string_view piece) { shown_ += piece; }, cancelled_);
  }
  void expect_refused(const GenerationRequest& request, const char* message) {
    const auto refused = generate(request);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr(message));
    EXPECT_TRUE(chain_.steps.empty()) << "refused before any work";
  }
  Ids alone(Ids tokens, std::uint32_t count) const {
    Ids answer;
    for (std::uint32_t i = 0; i < count; ++i) {
      answer.push_back(chain_.model(tokens));
      tokens.push_back(answer.back());
      if (answer.back() == kEnd) break;
    }
    return answer;
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
  SteadyClock clock_;
  FakeChain chain_;
  std::atomic<bool> cancelled_ = false;
  std::string shown_;
  std::unique_ptr<BatchGenerator> generator_;
};

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

TEST_F(BatchGeneratorTest, DraftsChangeNothingButTheSteps) {
  chain_.model = [](const Ids& tokens) {
    // Runs of a pattern, and now and then another token.
    return tokens.size() % 11 == 0 ? 20 : static_cast<std::int64_t>(tokens.size() % 4) + 5;
  };
  auto asked = request({5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7});
  asked.max_tokens = 40;
  const auto generation = generate(asked);
  ASSERT_TRUE(generation) << generation.error().message();
  EXPECT_EQ(generation->tokens, alone(asked.prompt, 40));
  EXPECT_GT(chain_.drafts_right, 10);
  EXPECT_GT(chain_.drafts_wrong, 0);
  const auto stats = generator().stats().scheduler;
  EXPECT_EQ(stats.accepted_drafts, static_cast<std::uint64_t>(chain_.drafts_right));
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

/// Gathers all of a request's answers.
class Gatherer final : public AnswerListener {
 public:
  void on_tokens(std::uint32_t, std::span<const wire::Sample> samples, std::string_view) override {
    streamed += samples.size();
  }
  void on_finished(std::uint32_t choice, const Generation& generation) override {
    const std::lock_guard lock(mutex);
    answers[choice] = generation;
    ended.notify_all();
  }
  void on_failed(const Error& error) override { ADD_FAILURE() << error.message(); }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(
        ended.wait_for(lock, std::chrono::seconds(20), [&] { return answers.size() == count; }));
  }

  std::mutex mutex;
  std::condition_variable ended;
  std::map<std::uint32_t, Generation> answers;
  std::atomic<std::size_t> streamed = 0;
};

TEST_F(BatchGeneratorTest, ManyAtOnceGetWhatEachWouldGetAlone) {
  std::mt19937 random(1);
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Gatherer>>> all;
  for (int i = 0; i < 40; ++i) {
    Ids prompt(1 + random() % 20);
    for (auto& id : prompt) id = 3 + static_cast<std::int64_t>(random() % 3);
    auto asked = request(prompt);
    asked.max_tokens = 1 + static_cast<std::uint32_t>(random() % 20);
    asked.ignore_eos = true;
    all.emplace_back(asked, std::make_shared<Gatherer>());
    const auto id = generator().submit(asked, all.back().second);
    ASSERT_TRUE(id) << id.error().message();
    if (i % 7 == 3) {
      generator().cancel(*id);
      all.pop_back();
    }
  }
  for (auto& [asked, gathered] : all) {
    gathered->wait_for(1);
    EXPECT_EQ(gathered->answers.at(0).tokens, alone(asked.prompt, asked.max_tokens));
    EXPECT_EQ(gathered->streamed, gathered->answers.at(0).tokens.size());
  }
  const auto stats = generator().stats();
  EXPECT_EQ(stats.scheduler.running, 0U);
  EXPECT_EQ(stats.scheduler.available_blocks, kBlocks) << "none is lost";
  EXPECT_EQ(stats.stage_use.size(), 1U);
}

TEST_F(BatchGeneratorTest, SeveralAnswersToOnePromptAreNumbered) {
  auto asked = request({5, 6, 7, 8, 9, 10});
  asked.choices = 3;
  asked.max_tokens = 4;
  const auto gathered = std::make_shared<Gatherer>();
  ASSERT_TRUE(generator().submit(asked, gathered));
  gathered->wait_for(3);
  for (const auto& [choice, answer] : gathered->answers) {
    EXPECT_EQ(answer.tokens, alone(asked.prompt, 4)) << choice;
    EXPECT_EQ(answer.reused_tokens, choice == 0 ? 0U : 5U) << "the prompt is computed once";
  }
  std::vector<std::uint32_t> choices;
  for (const wire::Step& step : chain_.steps) {
    for (const auto& spec : step.opened) choices.push_back(spec.sampling.choice);
  }
  EXPECT_THAT(choices, testing::UnorderedElementsAre(0, 1, 2));
}

TEST_F(BatchGeneratorTest, TheEndOfTheGeneratorEndsWhatIsLeft) {
  chain_.hold(true);
  const auto gathered = std::make_shared<Gatherer>();
  ASSERT_TRUE(generator().submit(request({5}), gathered));
  generator_.reset();
  EXPECT_EQ(gathered->answers.at(0).finish_reason, FinishReason::kCancelled);
}

/// Guesses on a thread of its own, a little later; every fourth guess is wrong.
class LateModel final : public spec::DraftModel {
 public:
  explicit LateModel(std::function<std::int64_t(const Ids&)> model) : model_(std::move(model)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        if (!is_asked_.exchange(false)) continue;
        has_come_ = true;
        const std::lock_guard lock(mutex_);
        if (listener_) listener_();
      }
    });
  }
  void expect(const sampling::SamplingSpec& sampling, std::uint32_t prompt_tokens) override {
    expected.push_back({sampling, prompt_tokens});
  }
  void open(spec::LineId) override { ++opened; }
  spec::Guess guess(spec::LineId, std::span<const std::int64_t> known,
                    std::span<const std::int64_t> assumed, const spec::GuessSize& size) override {
    if (!has_come_.exchange(false)) {
      is_asked_ = true;
      ++waits;
      return {{}, true};
    }
    Ids text(known.begin(), known.end());
    text.insert(text.end(), assumed.begin(), assumed.end());
    spec::Guess guess;
    for (std::uint32_t i = 0; i < size.count; ++i) {
      guess.tokens.push_back(++guesses_ % 4 == 0 ? 1 : model_(text));
      text.push_back(guess.tokens.back());
    }
    return guess;
  }
  void finish(spec::LineId) override { --opened; }
  double guess_us() const override { return 0; }
  void set_listener(std::function<void()> listener) override {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }

  std::vector<std::pair<sampling::SamplingSpec, std::uint32_t>> expected;
  std::atomic<int> opened = 0;
  std::atomic<int> waits = 0;

 private:
  const std::function<std::int64_t(const Ids&)> model_;
  int guesses_ = 0;
  std::atomic<bool> is_asked_ = false;
  std::atomic<bool> has_come_ = false;
  std::mutex mutex_;
  std::function<void()> listener_;
  std::jthread thread_;
};

TEST_F(BatchGeneratorTest, StepsWaitForADraftModelAndTheTextIsTheSame) {
  LateModel model(chain_.model);
  BatchOptions with_model = options();
  with_model.draft_model = &model;
  with_model.scheduler.max_drafts = 3;
  generator_ = std::make_unique<BatchGenerator>(chain_, 1, &tokenizer_, clock_, with_model);
  std::vector<std::shared_ptr<Gatherer>> all;
  for (std::int64_t i = 0; i < 6; ++i) {
    auto asked = request({5, 6 + i});
    asked.ignore_eos = true;
    asked.max_tokens = 30;
    asked.sampling.seed = static_cast<std::uint64_t>(i);
    all.push_back(std::make_shared<Gatherer>());
    const auto id = generator().submit(asked, all.back());
    ASSERT_TRUE(id) << id.error().message();
    if (i != 3) continue;
    generator().cancel(*id);
    all.pop_back();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->wait_for(1);
    const Ids prompt = {5, 6 + static_cast<std::int64_t>(i + (i > 2 ? 1 : 0))};
    EXPECT_EQ(all[i]->answers.at(0).tokens, alone(prompt, 30));
  }
  EXPECT_GT(model.waits, 0);
  EXPECT_GT(chain_.drafts_right, 30);
  EXPECT_GT(chain_.drafts_wrong, 3);
  ASSERT_EQ(model.expected.size(), 6U);
  EXPECT_EQ(model.expected[4].first.seed, 4U);
  EXPECT_EQ(model.expected[4].second, 2U);
  generator_.reset();
  EXPECT_EQ(model.opened, 0) << "it hears of every end";
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
