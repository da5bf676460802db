// Speculation changes no text: drafts of any quality against sampling alone.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "sampling/counter_random.h"
#include "sampling/reference_sampler_testing.h"
#include "sampling/sequence_sampler.h"

namespace paceline::sampling {
namespace {

using Tokens = std::vector<std::uint32_t>;

/// A model whose logits are a function of the last two tokens; with `error`, another one that is
/// alike.
class ToyModel {
 public:
  ToyModel(std::uint32_t vocabulary, double error, std::uint64_t seed)
      : vocabulary_(vocabulary), error_(error), seed_(seed) {}

  std::vector<float> logits(const Tokens& tokens) const {
    const std::uint64_t last = tokens.empty() ? 0 : tokens.back() + 1;
    const std::uint64_t before = tokens.size() < 2 ? 0 : tokens[tokens.size() - 2] + 1;
    PositionNoise own(77, 0, last * 1000 + before);
    PositionNoise other(seed_, 1, last * 1000 + before);
    std::vector<float> row(vocabulary_);
    for (std::uint32_t token = 0; token < vocabulary_; ++token) {
      row[token] = static_cast<float>(gumbel(own.bits(token)) + error_ * gumbel(other.bits(token)));
    }
    return row;
  }
  std::uint32_t vocabulary() const { return vocabulary_; }

 private:
  std::uint32_t vocabulary_;
  double error_;
  std::uint64_t seed_;
};

SequenceSampler make(const SamplingSpec& spec, const Tokens& prompt, std::uint32_t vocabulary) {
  auto sampler = SequenceSampler::create(spec, prompt.size(), prompt, vocabulary);
  EXPECT_TRUE(sampler) << sampler.error().message();
  return *std::move(sampler);
}

/// Tokens without speculation, up to `count` or a stop token.
Tokens plain_text(const ToyModel& model, const SamplingSpec& spec, Tokens tokens,
                  std::size_t count) {
  Workspace workspace;
  auto sampler = make(spec, tokens, model.vocabulary());
  const std::size_t prompt = tokens.size();
  while (tokens.size() < prompt + count) {
    const auto token = sampler.draw(model.logits(tokens), tokens.size(), workspace);
    EXPECT_TRUE(token) << token.error().message();
    tokens.push_back(*token);
    sampler.accept(*token);
    if (sampler.ends(*token)) break;
  }
  return tokens;
}

struct Speculated {
  Tokens tokens;
  std::size_t steps = 0;
  std::size_t accepted = 0;
};

/// What a target makes of the drafts that `guess(tokens)` gives.
template <typename Guess>
Speculated speculate(const ToyModel& target, const SamplingSpec& spec, Tokens tokens,
                     std::size_t count, Guess guess) {
  Workspace workspace;
  Speculated result;
  auto sampler = make(spec, tokens, target.vocabulary());
  const std::size_t end = tokens.size() + count;
  while (tokens.size() < end) {
    const Tokens drafts = guess(tokens);
    std::vector<float> rows = target.logits(tokens);
    Tokens path = tokens;
    for (const std::uint32_t draft : drafts) {
      path.push_back(draft);
      const auto row = target.logits(path);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const auto samples = sampler.verify(rows, tokens.size(), drafts, workspace, nullptr);
    EXPECT_TRUE(samples) << samples.error().message();
    for (const Sample& sample : *samples) {
      tokens.push_back(static_cast<std::uint32_t>(sample.token));
    }
    ++result.steps;
    result.accepted += samples->size() - 1;
    if (sampler.ends(tokens.back())) break;
  }
  if (tokens.size() > end) tokens.resize(end);
  result.tokens = std::move(tokens);
  return result;
}

/// A draft model that draws with the sequence's noise.
auto drafted_by(const ToyModel& draft, const SamplingSpec& spec, std::size_t prompt,
                std::size_t depth) {
  return [&draft, spec, prompt, depth](Tokens tokens) {
    Tokens drafts;
    Workspace workspace;
    for (std::size_t i = 0; i < depth; ++i) {
      auto sampler = SequenceSampler::create(spec, prompt, tokens, draft.vocabulary());
      drafts.push_back(*sampler->draw(draft.logits(tokens), tokens.size(), workspace));
      tokens.push_back(drafts.back());
    }
    return drafts;
  };
}

std::vector<SamplingSpec> specs() {
  std::vector<SamplingSpec> specs(5);
  specs[1].temperature = 0.7;
  specs[2].temperature = 1.3;
  specs[2].top_p = 0.9;
  specs[3].temperature = 1;
  specs[3].repetition_penalty = 1.2;
  specs[3].frequency_penalty = 0.3;
  specs[3].logit_bias = {{3, 1.5F}};
  specs[4].temperature = 0.9;
  specs[4].min_p = 0.05;
  specs[4].stop_tokens = {5, 6};
  specs[4].min_tokens = 30;
  for (std::size_t i = 0; i < specs.size(); ++i) specs[i].seed = 40 + i;
  return specs;
}

TEST(VerificationTest, DraftsOfAnyQualityChangeNoText) {
  const ToyModel target(50, 0, 0);
  const Tokens prompt = {9, 4, 9};
  for (const SamplingSpec& spec : specs()) {
    const Tokens plain = plain_text(target, spec, prompt, 120);
    EXPECT_GT(std::set<std::uint32_t>(plain.begin(), plain.end()).size(), 15U);
    for (const double error : {0.0, 0.3, 5.0}) {
      const ToyModel draft(50, error, 8);
      for (const std::size_t depth : {0U, 1U, 4U, 9U}) {
        const auto result =
            speculate(target, spec, prompt, 120, drafted_by(draft, spec, prompt.size(), depth));
        EXPECT_EQ(result.tokens, plain) << "error " << error << " depth " << depth;
        if (error == 0.0 && depth == 9 && spec.stop_tokens.empty()) {
          EXPECT_EQ(result.steps, 12U) << "the model itself is always right";
        }
      }
    }
  }
}

// The point of drawing with the same noise: a model that is alike agrees far more often than one
// that draws on its own.
TEST(VerificationTest, SharedNoiseAgreesMoreOftenThanItsOwn) {
  const ToyModel target(50, 0, 0);
  const ToyModel draft(50, 0.2, 8);
  SamplingSpec spec;
  spec.temperature = 1;
  spec.seed = 1;
  SamplingSpec own = spec;
  own.seed = 2;
  const auto shared = speculate(target, spec, {1}, 400, drafted_by(draft, spec, 1, 1));
  const auto apart = speculate(target, spec, {1}, 400, drafted_by(draft, own, 1, 1));
  EXPECT_EQ(shared.tokens, apart.tokens);
  EXPECT_GT(shared.accepted, 2 * apart.accepted);
}

TEST(VerificationTest, SpeculatedTokensFollowTheTarget) {
  const ToyModel target(4, 0, 0);
  const ToyModel draft(4, 0.8, 3);
  constexpr int kTexts = 20000;
  SamplingSpec spec;
  spec.temperature = 1;
  std::vector<double> counts(16, 0);
  for (int text = 0; text < kTexts; ++text) {
    spec.seed = static_cast<std::uint64_t>(text);
    const auto result = speculate(target, spec, {2}, 2, drafted_by(draft, spec, 1, 2));
    ++counts[4 * result.tokens[1] + result.tokens[2]];
  }
  const auto expected = [](const ToyModel& model) {
    std::vector<double> pairs;
    const auto first = softmax(model.logits({2}), 1);
    for (std::uint32_t a = 0; a < 4; ++a) {
      for (const double second : softmax(model.logits({2, a}), 1)) {
        pairs.push_back(kTexts * first[a] * second);
      }
    }
    return pairs;
  };
  // 15 degrees of freedom: above 37.7 with probability .001.
  EXPECT_LT(chi_square(counts, expected(target)), 37.7);
  EXPECT_GT(chi_square(counts, expected(draft)), 37.7) << "the test can fail";
}

TEST(VerificationTest, AStopTokenEndsIt) {
  SamplingSpec spec;
  spec.stop_tokens = {1};
  auto sampler = make(spec, {0}, 3);
  Workspace workspace;
  const std::vector<float> rows = {0, 9, 0, 9, 0, 0, 9, 0, 0};
  const Tokens guesses = {1, 0};
  const auto samples = sampler.verify(rows, 1, guesses, workspace);
  ASSERT_TRUE(samples);
  ASSERT_EQ(samples->size(), 1U) << "the draft after the end does not count";
  EXPECT_EQ(samples->front().token, 1);
}

/// Allows a token once.
class OnceEach final : public MaskSource {
 public:
  Result<TokenMask> mask(std::span<const std::uint32_t> accepted) override {
    word_ = ~0U;
    for (const std::uint32_t token : accepted) word_ &= ~(1U << token);
    if (accepted.size() == fail_after) return fail(ErrorCode::kInternal, "the grammar is lost");
    return TokenMask(&word_, 1);
  }
  std::size_t fail_after = 99;

 private:
  std::uint32_t word_ = 0;
};

TEST(VerificationTest, MasksFollowWhatIsAcceptedAndErrorsLeaveNothing) {
  SamplingSpec spec;
  spec.presence_penalty = 0.1;
  auto sampler = make(spec, {0}, 3);
  Workspace workspace;
  const std::vector<float> rows = {0, 9, 5, 0, 9, 5, 0, 9, 5};
  OnceEach masks;
  const Tokens guesses = {1, 2};
  masks.fail_after = 2;
  const auto failed = sampler.verify(rows, 1, guesses, workspace, &masks);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "the grammar is lost");
  EXPECT_EQ(sampler.history().end_position(), 1U);
  masks.fail_after = 99;
  const auto samples = sampler.verify(rows, 1, guesses, workspace, &masks);
  ASSERT_TRUE(samples);
  ASSERT_EQ(samples->size(), 3U);
  EXPECT_EQ((*samples)[1].token, 2);
  EXPECT_EQ((*samples)[2].token, 0);
  EXPECT_EQ(sampler.history().end_position(), 4U);
}

TEST(VerificationTest, DraftsThatDoNotFitAreRefused) {
  auto sampler = make({}, {0}, 3);
  Workspace workspace;
  const std::vector<float> rows(9, 1.0F);
  const Tokens tokens = {1, 2};
  const auto refused = sampler.verify(std::span(rows).first(7), 1, tokens, workspace);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message().starts_with("drafts: "));
  EXPECT_FALSE(sampler.verify(std::span(rows).first(6), 1, tokens, workspace));
}

}  // namespace
}  // namespace paceline::sampling
