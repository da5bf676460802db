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

}  // namespace
}  // namespace paceline::spec
