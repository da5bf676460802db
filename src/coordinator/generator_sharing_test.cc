// Many answers in the same steps, and steps with drafts: what each says is what it would say alone.
#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "coordinator/batch_generator_testing.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using GeneratorSharingTest = BatchGeneratorTest;

TEST_F(GeneratorSharingTest, DraftsChangeNothingButTheSteps) {
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

TEST_F(GeneratorSharingTest, ManyAtOnceGetWhatEachWouldGetAlone) {
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

TEST_F(GeneratorSharingTest, SeveralAnswersToOnePromptAreNumbered) {
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

TEST_F(GeneratorSharingTest, TheEndOfTheGeneratorEndsWhatIsLeft) {
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

TEST_F(GeneratorSharingTest, StepsWaitForADraftModelAndTheTextIsTheSame) {
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

}  // namespace
}  // namespace paceline::coordinator
