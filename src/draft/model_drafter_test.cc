#include "draft/model_drafter.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <numeric>

#include "draft/load_drafter.h"
#include "worker/fake_engine_testing.h"

namespace paceline::draft {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Tokens = std::vector<std::int64_t>;
using worker::fake_answer;
using worker::FakeEngine;

constexpr std::uint32_t kLayers = 2;

class ModelDrafterTest : public testing::Test {
 protected:
  ModelDrafterTest() { options_.block_tokens = worker::kFakeBlockTokens; }

  ModelDrafter& drafter() {
    if (!drafter_) {
      auto engine = std::make_unique<FakeEngine>(LayerRange{0, kLayers}, kLayers);
      engine_ = engine.get();
      engine->before_run = [this] {
        if (before_run_) before_run_();
      };
      drafter_ = std::make_unique<ModelDrafter>(std::move(engine), clock_, options_);
      drafter_->set_listener([this] {
        const std::lock_guard lock(mutex_);
        ++told_;
        changed_.notify_all();
      });
    }
    return *drafter_;
  }
  spec::LineId open(std::uint64_t number, std::uint32_t prompt_tokens) {
    drafter().expect({}, prompt_tokens);
    drafter().open(spec::LineId(number));
    return spec::LineId(number);
  }
  /// The guesses, once they have come.
  Tokens guess(spec::LineId line, const Tokens& known, const Tokens& assumed, std::uint32_t count,
               std::uint32_t ahead = 0) {
    for (;;) {
      int before = 0;
      {
        const std::lock_guard lock(mutex_);
        before = told_;
      }
      auto guess = drafter().guess(line, known, assumed, {count, ahead});
      if (!guess.is_coming) return guess.tokens;
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return told_ > before; })) {
        ADD_FAILURE() << "nobody tells that the guesses have come";
        return {};
      }
    }
  }
  static Tokens text(std::uint32_t seed, std::size_t count) {
    Tokens tokens(count);
    for (std::size_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<std::int64_t>((seed * 31 + i * i * 7 + i) % worker::kFakeVocabulary);
    }
    return tokens;
  }

  DrafterOptions options_;
  SteadyClock clock_;
  FakeEngine* engine_ = nullptr;
  std::function<void()> before_run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int told_ = 0;
  std::unique_ptr<ModelDrafter> drafter_;
};

TEST_F(ModelDrafterTest, ItGuessesWhatTheModelSays) {
  options_.step_tokens = 7;  // the text is read in pieces
  Tokens known = text(1, 30);
  const auto line = open(1, 30);
  EXPECT_EQ(guess(line, known, {}, 5), fake_answer(known, kLayers, 5));
  // A right text, a wrong one, and drafts of others that are being verified.
  for (const std::int64_t token : fake_answer(known, kLayers, 3)) known.push_back(token);
  EXPECT_EQ(guess(line, known, {}, 4), fake_answer(known, kLayers, 4));
  known.push_back(50);
  EXPECT_EQ(guess(line, known, {}, 4), fake_answer(known, kLayers, 4));
  Tokens whole = known;
  whole.insert(whole.end(), {8, 9});
  EXPECT_EQ(guess(line, known, {8, 9}, 4), fake_answer(whole, kLayers, 4));
  known.push_back(12);
  EXPECT_EQ(guess(line, known, {}, 6), fake_answer(known, kLayers, 6)) << "they were wrong";
  EXPECT_GT(drafter().stats().guesses, 15U);
  EXPECT_GT(drafter().guess_us(), 0.0);
}

TEST_F(ModelDrafterTest, ItGoesOnWhileItsGuessesAreVerified) {
  Tokens known = text(2, 8);
  const auto line = open(1, 8);
  const Tokens expected = fake_answer(known, kLayers, 9);
  EXPECT_EQ(guess(line, known, {}, 4, 5), Tokens(expected.begin(), expected.begin() + 4));
  for (int wait = 0; drafter().stats().guesses < 9 && wait < 2000; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(drafter().stats().guesses, 9U);
  known.insert(known.end(), expected.begin(), expected.begin() + 5);
  const auto next = drafter().guess(line, known, {}, {4, 0});
  EXPECT_FALSE(next.is_coming) << "they are there at once";
  EXPECT_EQ(next.tokens, Tokens(expected.begin() + 5, expected.end()));
}

TEST_F(ModelDrafterTest, ManyLinesShareABatch) {
  constexpr std::uint32_t kLines = 12;
  std::vector<Tokens> texts;
  for (std::uint32_t i = 0; i < kLines; ++i) {
    texts.push_back(text(i, 3 + i));
    open(i + 1, 3 + i);
  }
  std::atomic<bool> may_run = false;
  before_run_ = [&] {
    while (!may_run) std::this_thread::yield();
  };
  for (std::uint32_t i = 0; i < kLines; ++i) {
    EXPECT_TRUE(drafter().guess(spec::LineId(i + 1), texts[i], {}, {4, 0}).is_coming);
  }
  may_run = true;
  for (std::uint32_t i = 0; i < kLines; ++i) {
    EXPECT_EQ(guess(spec::LineId(i + 1), texts[i], {}, 4), fake_answer(texts[i], kLayers, 4));
  }
  const DrafterStats stats = drafter().stats();
  EXPECT_EQ(stats.guesses, 4U * kLines);
  EXPECT_LE(stats.batches, 6U) << "not one after the other";
  for (std::uint32_t i = 0; i < kLines; ++i) drafter().finish(spec::LineId(i + 1));
  EXPECT_EQ(drafter().stats().lines, 0U);
  EXPECT_EQ(drafter().stats().free_blocks, options_.kv_blocks) << "none is lost";
}

TEST_F(ModelDrafterTest, LinesThatDoNotFitAreNotFollowed) {
  options_.kv_blocks = 4;
  const Tokens known = text(1, 9);
  const auto first = open(1, 9);
  const auto second = open(2, 9);
  EXPECT_EQ(guess(first, known, {}, 3).size(), 3U);
  const auto none = drafter().guess(second, known, {}, {3, 0});
  EXPECT_TRUE(none.tokens.empty() && !none.is_coming) << "look elsewhere";
  // The first is asked no more: its place is taken, and it gets one again in the end.
  Tokens guessed;
  for (int i = 0; i < 40 && guessed.empty(); ++i) guessed = guess(second, known, {}, 3);
  EXPECT_EQ(guessed, fake_answer(known, kLayers, 3));
  drafter().finish(second);
  EXPECT_EQ(guess(first, known, {}, 3), fake_answer(known, kLayers, 3));
}

TEST_F(ModelDrafterTest, TheContextEndsTheGuesses) {
  options_.context_tokens = 10;
  const auto line = open(1, 8);
  const Tokens known = text(1, 8);
  EXPECT_EQ(guess(line, known, {}, 5, 9), fake_answer(known, kLayers, 2));
  EXPECT_THAT(guess(line, text(1, 10), {}, 5), IsEmpty());
  EXPECT_THAT(guess(spec::LineId(7), known, {}, 5), IsEmpty()) << "never opened";
}

TEST_F(ModelDrafterTest, ALongTextIsNotWaitedFor) {
  options_.awaited_tokens = 16;
  const auto line = open(1, 40);
  const Tokens known = text(1, 40);
  const auto none = drafter().guess(line, known, {}, {3, 0});
  EXPECT_TRUE(none.tokens.empty() && !none.is_coming);
  Tokens guessed;
  for (int wait = 0; wait < 2000 && guessed.empty(); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    guessed = guess(line, known, {}, 3);
  }
  EXPECT_EQ(guessed, fake_answer(known, kLayers, 3)) << "but it is read meanwhile";
}

TEST_F(ModelDrafterTest, SeededGuessesAreThoseOfTheSampler) {
  sampling::SamplingSpec sampling;
  sampling.temperature = 1.5;
  sampling.seed = 3;
  const Tokens known = text(1, 5);
  drafter().expect(sampling, 5);
  drafter().open(spec::LineId(1));
  drafter().open(spec::LineId(2));
  std::vector<Tokens> answers;
  for (std::uint32_t choice = 0; choice < 2; ++choice) {
    // The model gives 1 for one token and 0 for all others: the noise decides.
    sampling.choice = choice;
    Tokens all = known;
    for (int i = 0; i < 6; ++i) {
      std::vector<float> logits(worker::kFakeVocabulary, 0.0F);
      logits[static_cast<std::size_t>(fake_answer(all, kLayers, 1)[0])] = 1.0F;
      all.push_back(sampling::sample(logits, sampling, all.size()).value().token);
    }
    answers.push_back(guess(spec::LineId(choice + 1), known, {}, 6));
    EXPECT_EQ(answers.back(), Tokens(all.begin() + 5, all.end()));
  }
  EXPECT_NE(answers[0], answers[1]) << "each answer has noise of its own";
}

TEST_F(ModelDrafterTest, AFailureOfTheEngineEndsTheGuessesAndIsTold) {
  const auto line = open(1, 5);
  engine_->failure = Error(ErrorCode::kInternal, "the device is gone");
  EXPECT_THAT(guess(line, text(1, 5), {}, 3), IsEmpty());
  const auto failure = drafter().stats().failure;
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->message(), HasSubstr("the device is gone"));
}

TEST_F(ModelDrafterTest, LinesMayEndWhileTheyAreComputed) {
  for (std::uint64_t round = 1; round < 200; ++round) {
    const auto line = open(round, 6);
    (void)drafter().guess(line, text(static_cast<std::uint32_t>(round), 6), {}, {4, 4});
    if (round % 3 != 0) std::this_thread::yield();
    drafter().finish(line);
  }
  const Tokens known = text(7, 6);
  EXPECT_EQ(guess(open(1000, 6), known, {}, 4), fake_answer(known, kLayers, 4));
}

TEST(LoadDrafterTest, OtherVocabulariesAreRefused) {
  shard::Manifest draft;
  shard::Manifest model;
  draft.vocabulary_size = 256;
  model.vocabulary_size = 49152;
  const Status refused = check_vocabulary(draft, model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("256 tokens, the model one of 49152"));
  model.vocabulary_size = 256;
  EXPECT_TRUE(check_vocabulary(draft, model));
}

}  // namespace
}  // namespace paceline::draft
