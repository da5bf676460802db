#include "spec/speculator.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

namespace paceline::spec {
namespace {

using Tokens = std::vector<std::int64_t>;

const StepCost kSmall = {{{1, 10600}, {2, 11100}, {4, 12900}, {8, 17700}, {16, 27900}, {32, 47500}},
                         0};

struct Writing {
  int steps = 0;
  int proposed = 0;
  double us = 0;
};

/// Lets a line write `text` after its first `prompt` tokens, verifying what is proposed.
Writing write(Speculator& speculator, LineId line, const Tokens& text, std::size_t prompt) {
  Writing run;
  const DraftRoom room = {16, 0, 0};
  for (std::size_t known = prompt; known < text.size();) {
    const Draft draft = speculator.propose(line, std::span(text).first(known), {}, room);
    EXPECT_LE(draft.tokens.size(), room.most);
    DraftOutcome outcome;
    outcome.room = room;
    outcome.match = draft.match;
    outcome.proposed = static_cast<std::uint32_t>(draft.tokens.size());
    while (outcome.accepted < outcome.proposed && known + outcome.accepted < text.size() &&
           draft.tokens[outcome.accepted] == text[known + outcome.accepted]) {
      ++outcome.accepted;
    }
    known += outcome.accepted + 1;
    speculator.observe(line, outcome);
    ++run.steps;
    run.proposed += static_cast<int>(outcome.proposed);
    run.us += kSmall.us(1.0 + outcome.proposed);
  }
  return run;
}

Tokens random_text(std::uint32_t seed, std::size_t count, std::uint32_t vocabulary) {
  std::mt19937 random(seed);
  Tokens text(count);
  for (auto& token : text) token = static_cast<std::int64_t>(random() % vocabulary);
  return text;
}

TEST(SpeculatorTest, CopyingFromThePromptIsFast) {
  Speculator speculator({});
  speculator.set_cost(kSmall);
  Tokens text = random_text(1, 300, 5000);
  const Tokens source = text;
  for (int i = 0; i < 5; ++i) text.push_back(6000 + i);
  text.insert(text.end(), source.begin() + 20, source.begin() + 280);
  speculator.open(LineId(1), "");
  const Writing run = write(speculator, LineId(1), text, 305);
  EXPECT_GE(260 * kSmall.us(1) / run.us, 2.5) << run.steps << " steps";
}

TEST(SpeculatorTest, FreeTextLosesNothing) {
  for (const std::uint32_t vocabulary : {4U, 12U, 40U, 400U, 5000U}) {
    Speculator speculator({});
    speculator.set_cost(kSmall);
    const Tokens text = random_text(vocabulary, 1300, vocabulary);
    speculator.open(LineId(1), "");
    const Writing run = write(speculator, LineId(1), text, 300);
    EXPECT_GE(1000 * kSmall.us(1) / run.us, 0.97) << "vocabulary " << vocabulary;
  }
}

TEST(SpeculatorTest, LearnsFromTextsOfTheSameSaltOnly) {
  Speculator speculator({});
  speculator.set_cost(kSmall);
  const Tokens text = random_text(9, 200, 5000);
  speculator.open(LineId(1), "a");
  const Writing first = write(speculator, LineId(1), text, 10);
  EXPECT_EQ(first.steps, 190);
  speculator.finish(LineId(1), text);
  speculator.open(LineId(2), "b");
  EXPECT_EQ(write(speculator, LineId(2), text, 10).proposed, 0);
  speculator.open(LineId(3), "a");
  EXPECT_LT(write(speculator, LineId(3), text, 10).steps, 60);
}

TEST(SpeculatorTest, GoesOnWhileDraftsAreVerified) {
  Speculator speculator({});
  Tokens text;
  for (int i = 0; i < 40; ++i) text.push_back(i % 10);
  speculator.open(LineId(1), "");
  const Draft first = speculator.propose(LineId(1), text, {}, {4, 0, 0});
  EXPECT_EQ(first.tokens, (Tokens{0, 1, 2, 3}));
  const Draft next = speculator.propose(LineId(1), text, first.tokens, {4, 0, 0});
  EXPECT_EQ(next.tokens, (Tokens{4, 5, 6, 7}));
}

TEST(SpeculatorTest, IsBoundedAndForgets) {
  SpeculatorOptions options;
  options.most_salts = 3;
  Speculator speculator(options);
  const Tokens text = random_text(2, 50, 1000);
  for (std::uint64_t line = 1; line <= 10; ++line) {
    speculator.open(LineId(line), fmt::format("salt {}", line));
    speculator.finish(LineId(line), text);
  }
  EXPECT_EQ(speculator.open_lines(), 0U);
  const auto learned = [&](const std::string& salt) {
    speculator.open(LineId(99), salt);
    const bool knows =
        !speculator.propose(LineId(99), std::span(text).first(20), {}, {8, 0, 0}).tokens.empty();
    speculator.finish(LineId(99), {});
    return knows;
  };
  EXPECT_TRUE(learned("salt 10"));
  EXPECT_FALSE(learned("salt 1"));
  // A line that nobody opened is no error: it may have ended meanwhile.
  EXPECT_TRUE(speculator.propose(LineId(1234), text, {}, {8, 0, 0}).tokens.empty());
  speculator.observe(LineId(1234), {});
  speculator.finish(LineId(1234), text);
}

/// Knows the texts; after a question for more than it has, it has it at the next one.
class ScriptedModel final : public DraftModel {
 public:
  explicit ScriptedModel(Tokens text) : text_(std::move(text)) {}
  void expect(const sampling::SamplingSpec&, std::uint32_t) override {}
  void open(LineId line) override { open_.push_back(line); }
  Guess guess(LineId, std::span<const std::int64_t> known, std::span<const std::int64_t> assumed,
              const GuessSize& size) override {
    ++questions;
    ahead = size.ahead;
    if (is_slow && ++waits_ % 2 == 1) return {{}, true};
    const std::size_t at = std::min(known.size() + assumed.size(), text_.size());
    const std::size_t count = std::min<std::size_t>(size.count, text_.size() - at);
    const auto first = text_.begin() + static_cast<std::ptrdiff_t>(at);
    return {{first, first + static_cast<std::ptrdiff_t>(count)}, false};
  }
  void finish(LineId line) override { std::erase(open_, line); }
  double guess_us() const override { return us; }
  void set_listener(std::function<void()>) override {}

  std::size_t open_lines() const { return open_.size(); }
  int questions = 0;
  std::uint32_t ahead = 0;
  bool is_slow = false;
  double us = 1000;

 private:
  Tokens text_;
  std::vector<LineId> open_;
  int waits_ = 0;
};

TEST(SpeculatorTest, AModelGuessesWhereNothingCanBeLookedUp) {
  const Tokens text = random_text(4, 400, 5000);
  ScriptedModel model(text);
  Speculator speculator({}, &model);
  speculator.set_cost(kSmall);
  speculator.open(LineId(1), "");
  EXPECT_EQ(model.open_lines(), 1U);
  const Writing run = write(speculator, LineId(1), text, 100);
  EXPECT_LT(run.steps, 100) << "300 tokens";
  EXPECT_GT(model.ahead, 0U) << "it is right: it may go on";
  speculator.finish(LineId(1), text);
  EXPECT_EQ(model.open_lines(), 0U);
}

TEST(SpeculatorTest, AModelThatIsSlowOrWrongIsHardlyAsked) {
  const Tokens text = random_text(5, 1300, 5000);
  for (const bool is_wrong : {false, true}) {
    ScriptedModel model(is_wrong ? random_text(6, 1300, 5000) : text);
    if (!is_wrong) model.us = 2 * kSmall.us(1);
    Speculator speculator({}, &model);
    speculator.set_cost(kSmall);
    speculator.open(LineId(1), "");
    const Writing run = write(speculator, LineId(1), text, 100);
    // A wrong one's time is lost, too.
    const double lost = run.us + run.proposed * model.us;
    EXPECT_LE(lost, 1200 * kSmall.us(1) / 0.97) << is_wrong;
    EXPECT_EQ(model.questions > 0, is_wrong);
  }
}

TEST(SpeculatorTest, GuessesThatAreComingAreSaidToBe) {
  const Tokens text = random_text(7, 50, 5000);
  ScriptedModel model(text);
  model.is_slow = true;
  Speculator speculator({}, &model);
  speculator.open(LineId(1), "");
  const auto known = std::span(text).first(20);
  const Draft coming = speculator.propose(LineId(1), known, {}, {8, 0, 0});
  EXPECT_TRUE(coming.is_coming);
  EXPECT_TRUE(coming.tokens.empty());
  const Draft come = speculator.propose(LineId(1), known, {}, {8, 0, 0});
  EXPECT_FALSE(come.is_coming);
  EXPECT_EQ(come.tokens, Tokens(text.begin() + 20, text.begin() + 28));
}

}  // namespace
}  // namespace paceline::spec
