#include "sampling/token_history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace paceline::sampling {
namespace {

using Counts = std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>;

Counts counts_of(const TokenHistory& history) {
  Counts counts;
  for (const auto& entry : history.entries()) {
    if (entry.in_prompt + entry.in_answer == 0) continue;
    EXPECT_TRUE(counts.emplace(entry.token, std::pair(entry.in_prompt, entry.in_answer)).second);
  }
  return counts;
}

TEST(TokenHistoryTest, PromptAndAnswerAreCountedApart) {
  TokenHistory history(3, std::vector<std::uint32_t>{5, 7, 5, 5});
  EXPECT_EQ(counts_of(history), (Counts{{5, {2, 1}}, {7, {1, 0}}}));
  history.push(8);
  EXPECT_EQ(history.end_position(), 5U);
  EXPECT_EQ(history.at(1), 7U);
  EXPECT_EQ(history.at(4), 8U);
  history.truncate(3);
  EXPECT_EQ(counts_of(history), (Counts{{5, {2, 0}}, {7, {1, 0}}}));
  history.truncate(9);
  EXPECT_EQ(history.end_position(), 3U);
}

TEST(TokenHistoryTest, WithoutTokensItBeginsAfterThePrompt) {
  TokenHistory history(10, {});
  EXPECT_EQ(history.first_position(), 10U);
  history.push(4);
  EXPECT_EQ(history.end_position(), 11U);
  EXPECT_EQ(counts_of(history), (Counts{{4, {0, 1}}}));
}

// Whatever was pushed and cut, it is as if made from the tokens that are left.
TEST(TokenHistoryTest, ItIsAFunctionOfItsTokens) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> tokens = {1, 2, 3};
  TokenHistory history(20, tokens);
  for (int round = 0; round < 2000; ++round) {
    if (random() % 3 > 0) {
      tokens.push_back(static_cast<std::uint32_t>(random() % 9));
      history.push(tokens.back());
    } else if (tokens.size() > 1) {
      tokens.resize(std::max<std::size_t>(1, tokens.size() - random() % 4));
      history.truncate(tokens.size());
    }
    const TokenHistory copy = history;
    ASSERT_EQ(counts_of(copy), counts_of(TokenHistory(20, tokens))) << round;
    ASSERT_EQ(copy.end_position(), tokens.size());
  }
}

}  // namespace
}  // namespace paceline::sampling
