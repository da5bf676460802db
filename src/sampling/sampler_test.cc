#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "sampling/counter_random.h"

namespace paceline::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingSpec tempered(double temperature, std::uint64_t seed = 1) {
  SamplingSpec spec;
  spec.temperature = temperature;
  spec.seed = seed;
  return spec;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp((logit - max) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

/// Which tokens the specification leaves, by sorting everything.
std::vector<bool> reference_set(const std::vector<float>& logits, const SamplingSpec& spec) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (spec.top_k > 0 && spec.top_k < order.size()) order.resize(spec.top_k);
  std::vector<float> left;
  for (const std::size_t token : order) left.push_back(logits[token]);
  const std::vector<double> p = softmax(left, spec.temperature);
  std::vector<bool> kept(logits.size(), false);
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    kept[order[i]] = true;
    sum += p[i];
    if (spec.top_p < 1 && sum >= spec.top_p) break;
  }
  return kept;
}

std::int64_t reference_token(const std::vector<float>& logits, const SamplingSpec& spec,
                             std::uint64_t position) {
  const std::vector<bool> kept = reference_set(logits, spec);
  PositionNoise noise(spec.seed, spec.choice, position);
  std::int64_t best = -1;
  double best_score = 0;
  for (std::uint32_t token = 0; token < logits.size(); ++token) {
    const double score = logits[token] / spec.temperature + gumbel(noise.bits(token));
    if (kept[token] && (best < 0 || score > best_score)) {
      best = token;
      best_score = score;
    }
  }
  return best;
}

TEST(GreedyTest, TheHighestLogitAndTheLowestIdAmongEquals) {
  const std::vector<float> logits = {0.5F, 3.0F, -1.0F, 3.0F, 2.0F};
  const auto chosen = sample(logits, {}, 0);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->token, 1);
  EXPECT_NEAR(chosen->logprob, std::log(softmax(logits, 1)[1]), 1e-12);
  EXPECT_EQ(sample(std::vector<float>{-0.0F, 0.0F}, {}, 0)->token, 0);
  EXPECT_EQ(sample(std::vector<float>{7.0F}, {}, 0)->logprob, 0);
}

TEST(SampleTest, WhatIsNotFiniteIsAnErrorAndMaskedIsNot) {
  for (const SamplingSpec& spec : {SamplingSpec{}, tempered(1)}) {
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

// Against the plain definition, on logits with many ties so that boundaries fall among equals.
TEST(SampleTest, AgreesWithTheDefinitionOnRandomCases) {
  std::mt19937 random(17);
  std::set<std::int64_t> seen;
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> logits(1 + random() % 700);
    for (float& logit : logits) {
      logit = round % 2 == 0 ? static_cast<float>(random() % 12)
                             : static_cast<float>(random() % 1000000) * 2e-5F;
    }
    SamplingSpec spec = tempered(0.25 * static_cast<double>(1 + random() % 8), random());
    if (random() % 2 == 0) spec.top_k = static_cast<std::uint32_t>(random() % 800);
    if (random() % 2 == 0) spec.top_p = 0.013 + 0.01 * static_cast<double>(random() % 98);
    spec.choice = static_cast<std::uint32_t>(random() % 3);
    const auto result = sample(logits, spec, round);
    ASSERT_TRUE(result);
    ASSERT_EQ(result->token, reference_token(logits, spec, round))
        << "round " << round << " k " << spec.top_k << " p " << spec.top_p;
    ASSERT_NEAR(result->logprob, std::log(softmax(logits, 1)[result->token]), 1e-9);
    seen.insert(result->token);
  }
  EXPECT_GT(seen.size(), 200U);
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

/// Pearson's statistic of counts against expected counts.
double chi_square(const std::vector<double>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  return sum;
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
