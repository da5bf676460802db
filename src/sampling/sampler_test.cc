#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "sampling/reference_sampler_testing.h"
#include "sampling/sequence_sampler.h"

namespace paceline::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingSpec tempered(double temperature, std::uint64_t seed = 1) {
  SamplingSpec spec;
  spec.logprobs = 0;
  spec.temperature = temperature;
  spec.seed = seed;
  return spec;
}

TEST(GreedyTest, TheHighestLogitAndTheLowestIdAmongEquals) {
  const std::vector<float> logits = {0.5F, 3.0F, -1.0F, 3.0F, 2.0F};
  const auto chosen = sample(logits, tempered(0), 0);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->token, 1);
  EXPECT_NEAR(chosen->logprob, std::log(softmax(logits, 1)[1]), 1e-12);
  EXPECT_EQ(sample(std::vector<float>{-0.0F, 0.0F}, {}, 0)->token, 0);
  EXPECT_EQ(sample(std::vector<float>{7.0F}, tempered(0), 0)->logprob, 0);
}

TEST(SampleTest, WhatIsNotFiniteIsAnErrorAndMaskedIsNot) {
  for (const SamplingSpec& spec : {tempered(0), tempered(1)}) {
    for (const std::vector<float>& bad :
         {std::vector<float>{}, {kNan}, {1, kNan, 2}, {kNan, 1}, {1, kInfinity}, {-kInfinity}}) {
      const auto result = sample(bad, spec, 0);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code(), ErrorCode::kInternal);
      EXPECT_EQ(result.error().message(), "logits are not finite");
    }
    for (std::uint64_t position = 0; position < 200; ++position) {
      const auto result = sample(std::vector<float>{-kInfinity, 1, -kInfinity, 1}, spec, position);
      ASSERT_TRUE(result);
      EXPECT_EQ(result->token % 2, 1);
      EXPECT_NEAR(result->logprob, -std::log(2.0), 1e-12);
    }
  }
}

TEST(SampleTest, BadSpecificationsNameTheField) {
  const std::vector<float> logits = {1, 2};
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto result = sample(logits, tempered(bad), 0);
    ASSERT_FALSE(result);
    EXPECT_TRUE(result.error().message().starts_with("temperature: expected"));
  }
  for (const double bad : {0.0, -0.1, 1.1, std::nan("")}) {
    SamplingSpec spec = tempered(1);
    spec.top_p = bad;
    EXPECT_TRUE(sample(logits, spec, 0).error().message().starts_with("top_p: expected"));
  }
}

TEST(SampleTest, ExtremeLogitsAndTemperatures) {
  const float max = std::numeric_limits<float>::max();
  for (const double temperature : {1e-300, 1e-6, 1.0, 1e300}) {
    for (const double top_p : {1e-9, 0.5, 1.0}) {
      SamplingSpec spec = tempered(temperature);
      spec.top_p = top_p;
      spec.top_k = 3;
      const auto result = sample(std::vector<float>{-max, max, 0, max, -max}, spec, 3);
      ASSERT_TRUE(result);
      EXPECT_TRUE(std::isfinite(result->logprob));
      if (temperature <= 1) {
        EXPECT_EQ(result->token % 2, 1);
      }
    }
  }
}

/// Rows of several shapes: ties, so that cuts fall among equals, a wide one, a flat one with an
/// outlier, and one with forbidden entries.
std::vector<float> random_row(std::mt19937& random, std::size_t size) {
  std::vector<float> logits(size);
  const auto kind = random() % 4;
  for (float& logit : logits) {
    const auto number = static_cast<float>(random() % 1000000);
    logit = kind == 0   ? static_cast<float>(random() % 12)
            : kind == 1 ? number * 2e-5F
            : kind == 2 ? number * 1e-10F
                        : (random() % 3 == 0 ? -kInfinity : number * 1e-5F);
  }
  logits[random() % size] = 8;
  return logits;
}

SamplingSpec random_spec(std::mt19937& random) {
  SamplingSpec spec = tempered(0.25 * static_cast<double>(1 + random() % 8), random());
  if (random() % 2 == 0) spec.top_k = static_cast<std::uint32_t>(random() % 3000);
  if (random() % 2 == 0) spec.top_p = 0.013 + 0.01 * static_cast<double>(random() % 98);
  if (random() % 3 == 0) spec.min_p = 0.0007 * static_cast<double>(random() % 300);
  spec.choice = static_cast<std::uint32_t>(random() % 3);
  return spec;
}

TEST(SampleTest, AgreesWithTheDefinitionOnRandomCases) {
  std::mt19937 random(17);
  std::set<std::int64_t> seen;
  for (int round = 0; round < 4000; ++round) {
    const std::size_t size = 1 + random() % (round % 50 == 0 ? 20000 : 700);
    const std::vector<float> logits = random_row(random, size);
    const SamplingSpec spec = random_spec(random);
    const auto result = sample(logits, spec, round);
    ASSERT_TRUE(result);
    ASSERT_EQ(result->token, reference_token(logits, spec, round))
        << "round " << round << " k " << spec.top_k << " p " << spec.top_p << " m " << spec.min_p;
    ASSERT_NEAR(result->logprob, std::log(softmax(logits, 1)[result->token]), 1e-8);
    seen.insert(result->token);
  }
  EXPECT_GT(seen.size(), 200U);
}

TEST(SampleTest, MinPIsAShareOfTheLikeliest) {
  // Probabilities in proportion 8, 4, 2, 1.
  const auto ln2 = static_cast<float>(std::log(2.0));
  const std::vector<float> logits = {ln2, 3 * ln2, 2 * ln2, 0};
  const std::vector<std::pair<double, std::set<std::int64_t>>> cases = {
      {0, {0, 1, 2, 3}}, {0.1, {0, 1, 2, 3}}, {0.2, {0, 1, 2}},
      {0.3, {1, 2}},     {0.6, {1}},          {1, {1}}};
  for (const auto& [min_p, expected] : cases) {
    SamplingSpec spec = tempered(1);
    spec.min_p = min_p;
    std::set<std::int64_t> seen;
    for (std::uint64_t position = 0; position < 400; ++position) {
      seen.insert(sample(logits, spec, position)->token);
    }
    EXPECT_EQ(seen, expected) << min_p;
  }
}

TEST(DescribeTest, TheLikeliestAreGivenInOrder) {
  std::mt19937 random(3);
  Workspace workspace;
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> logits = random_row(random, 1 + random() % 900);
    const std::vector<double> p = softmax(logits, 1);
    const auto count = static_cast<std::uint32_t>(random() % 21);
    const auto token = static_cast<std::uint32_t>(random() % logits.size());
    const auto sample = describe(logits, token, count, workspace);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->token, token);
    ASSERT_EQ(sample->top.size(), std::min<std::size_t>(count, logits.size()));
    std::vector<std::uint32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return logits[a] > logits[b]; });
    for (std::size_t i = 0; i < sample->top.size(); ++i) {
      ASSERT_EQ(sample->top[i].token, order[i]) << round;
      if (p[order[i]] > 0) {
        ASSERT_NEAR(sample->top[i].logprob, std::log(p[order[i]]), 1e-8);
      }
    }
  }
  const auto outside = describe(std::vector<float>{1, 2}, 2, 0, workspace);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().message(), "token 2 is outside the vocabulary of 2");
}

TEST(SampleTest, TopKKeepsTheLowestIdsAmongEqualsAndOneIsGreedy) {
  const std::vector<float> logits = {1, 2, 2, 2, 0};
  SamplingSpec spec = tempered(100);
  spec.top_k = 2;
  std::set<std::int64_t> seen;
  for (std::uint64_t position = 0; position < 300; ++position) {
    seen.insert(sample(logits, spec, position)->token);
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{1, 2}));
  spec.top_k = 1;
  for (std::uint64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(sample(logits, spec, position)->token, 1);
  }
}

TEST(SampleTest, TopPKeepsTheOneThatReachesIt) {
  // Probabilities .5, .25, .125, .125.
  const auto ln2 = static_cast<float>(std::log(2.0));
  const std::vector<float> logits = {ln2, 3 * ln2, 2 * ln2, ln2};
  const std::vector<std::pair<double, std::set<std::int64_t>>> cases = {
      {0.3, {1}}, {0.6, {1, 2}}, {0.74, {1, 2}}, {0.8, {0, 1, 2}}, {0.9, {0, 1, 2, 3}}};
  for (const auto& [top_p, expected] : cases) {
    SamplingSpec spec = tempered(1);
    spec.top_p = top_p;
    std::set<std::int64_t> seen;
    for (std::uint64_t position = 0; position < 400; ++position) {
      seen.insert(sample(logits, spec, position)->token);
    }
    EXPECT_EQ(seen, expected) << top_p;
  }
}

TEST(DistributionTest, DrawsFollowTheTemperedSoftmax) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5F, 2.5F, 1.5F, -0.5F};
  constexpr int kDraws = 40000;
  for (const double temperature : {0.7, 1.0, 2.0}) {
    std::vector<double> counts(logits.size(), 0);
    for (int i = 0; i < kDraws; ++i) ++counts[sample(logits, tempered(temperature, 99), i)->token];
    std::vector<double> expected = softmax(logits, temperature);
    for (double& value : expected) value *= kDraws;
    // 7 degrees of freedom: above 24.3 with probability .001.
    EXPECT_LT(chi_square(counts, expected), 24.3) << temperature;
    // The test can fail: the same counts are far from another temperature.
    std::vector<double> wrong = softmax(logits, temperature * 1.1);
    for (double& value : wrong) value *= kDraws;
    EXPECT_GT(chi_square(counts, wrong), 24.3) << temperature;
  }
}

// Pairs of draws that differ in one part of the key fill the 4 x 4 table as independent ones do.
TEST(DistributionTest, PositionsChoicesAndSeedsAreIndependent) {
  const std::vector<float> logits = {0, 0, 0, 0};
  constexpr int kDraws = 32000;
  for (int kind = 0; kind < 3; ++kind) {
    std::vector<double> counts(16, 0);
    for (int i = 0; i < kDraws; ++i) {
      SamplingSpec other = tempered(1, 7);
      std::uint64_t position = 2 * static_cast<std::uint64_t>(i);
      const auto first = sample(logits, other, position)->token;
      if (kind == 0) ++position;
      if (kind == 1) other.choice = 1;
      if (kind == 2) other.seed = 8;
      ++counts[4 * first + sample(logits, other, position)->token];
    }
    // 15 degrees of freedom: above 37.7 with probability .001.
    EXPECT_LT(chi_square(counts, std::vector<double>(16, kDraws / 16.0)), 37.7) << kind;
  }
}

// Noted once: the same seed must give the same text after an update, too.
TEST(SampleTest, AChosenTextStays) {
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 7919) % 1000) * 0.01F;
  }
  SamplingSpec spec = tempered(0.8, 2024);
  spec.top_k = 200;
  spec.top_p = 0.95;
  std::vector<std::int64_t> text;
  for (std::uint64_t position = 0; position < 8; ++position) {
    text.push_back(sample(logits, spec, position)->token);
  }
  EXPECT_EQ(text, (std::vector<std::int64_t>{568, 729, 198, 161, 655, 939, 507, 186}));
}

TEST(LogitsDigestTest, AnyBitChangesIt) {
  std::vector<float> logits(33);
  std::iota(logits.begin(), logits.end(), 0.25F);
  const std::uint64_t digest = logits_digest(logits);
  EXPECT_EQ(logits_digest(logits), digest);
  std::set<std::uint64_t> seen = {digest};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    std::vector<float> other = logits;
    other[i] = std::nextafter(other[i], 1000.0F);
    seen.insert(logits_digest(other));
    other[i] = -logits[i];
    seen.insert(logits_digest(other));
  }
  std::vector<float> swapped = logits;
  std::swap(swapped[0], swapped[2]);
  seen.insert(logits_digest(swapped));
  EXPECT_EQ(seen.size(), 2 + 2 * logits.size());
  EXPECT_NE(logits_digest(std::vector<float>{0.0F}), logits_digest(std::vector<float>{-0.0F}));
  EXPECT_NE(logits_digest(std::vector<float>{0.0F}), logits_digest(std::vector<float>{0.0F, 0.0F}));
  EXPECT_NE(logits_digest({}), 0U);
}

TEST(LogitsDigestTest, ManyRowsHaveNoCollision) {
  std::vector<float> logits(8, 0.0F);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200000; ++i) {
    logits[i % 8] = static_cast<float>(i + 1);
    seen.insert(logits_digest(logits));
  }
  EXPECT_EQ(seen.size(), 200000U);
  EXPECT_EQ(seen.count(0), 0U);
}

}  // namespace
}  // namespace paceline::sampling
