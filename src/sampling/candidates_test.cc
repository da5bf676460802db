#include "sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "sampling/reference_sampler_testing.h"

namespace paceline::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::uint32_t> wanted(const std::vector<bool>& kept) {
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t token = 0; token < kept.size(); ++token) {
    if (kept[token]) tokens.push_back(token);
  }
  return tokens;
}

class CandidatesTest : public testing::Test {
 protected:
  Candidates of(std::span<const float> logits) {
    Row row;
    EXPECT_TRUE(scan_row(logits, workspace_, row));
    return {row, workspace_};
  }
  static std::vector<std::uint32_t> tokens(const Candidates& candidates) {
    const auto list = candidates.tokens();
    for (std::size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(candidates.logits()[i], candidates.row().logits[list[i]]);
    }
    return {list.begin(), list.end()};
  }
  Workspace workspace_;
};

TEST_F(CandidatesTest, EachCutKeepsABeginningOfTheOrder) {
  const std::vector<float> logits = {3, 5, 5, 1, -kInfinity, 3, 5};
  Candidates candidates = of(logits);
  EXPECT_TRUE(candidates.has_all());
  candidates.keep_top_k(7);
  EXPECT_TRUE(candidates.has_all()) << "no cut, no copy";
  candidates.keep_from(3);
  EXPECT_EQ(tokens(candidates), (std::vector<std::uint32_t>{0, 1, 2, 5, 6}));
  candidates.keep_top_k(4);
  EXPECT_EQ(tokens(candidates), (std::vector<std::uint32_t>{0, 1, 2, 6}));
  candidates.keep_top_k(2);
  EXPECT_EQ(tokens(candidates), (std::vector<std::uint32_t>{1, 2}));
  candidates.keep_top_p(0.4, 1);
  EXPECT_EQ(tokens(candidates), (std::vector<std::uint32_t>{1}));
}

// Shapes that make searches hard: all equal, spread over all exponents, one far from many.
TEST_F(CandidatesTest, HardRowsAreCutAsByDefinition) {
  std::mt19937 random(6);
  std::vector<std::vector<float>> rows(4, std::vector<float>(3000));
  for (std::size_t i = 0; i < 3000; ++i) {
    rows[0][i] = 4;
    rows[1][i] = -std::ldexp(1.0F, static_cast<int>(random() % 200) - 140);
    rows[2][i] = i == 1234 ? 9.0F : 1.0F + static_cast<float>(random() % 1000) * 1e-6F;
    rows[3][i] = static_cast<float>(random() % 2);
  }
  for (const auto& logits : rows) {
    for (const std::uint32_t k : {0U, 1U, 100U, 1024U, 1025U, 2999U}) {
      for (const double p : {1.0, 0.0501, 0.5101, 0.9701}) {
        SamplingSpec spec;
        spec.temperature = 1;
        spec.top_k = k;
        spec.top_p = p;
        Candidates candidates = of(logits);
        candidates.keep_top_k(k);
        candidates.keep_top_p(p, 1);
        if (candidates.has_all()) continue;
        EXPECT_EQ(tokens(candidates), wanted(reference_set(logits, spec))) << k << " " << p;
      }
    }
  }
}

TEST_F(CandidatesTest, TheBestIsTheFirstOfEquals) {
  std::vector<float> logits(200, 1.0F);
  logits[150] = logits[70] = 2;
  Row row;
  ASSERT_TRUE(scan_row(logits, workspace_, row));
  EXPECT_EQ(best_of(row).token, 70U);
  EXPECT_EQ(top_of(row, 3)[2].token, 0U);
  EXPECT_EQ(top_of(row, 0).size(), 0U);
  EXPECT_EQ(top_of(row, 500).size(), 200U);
}

}  // namespace
}  // namespace paceline::sampling
