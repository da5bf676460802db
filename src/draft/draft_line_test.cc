#include "draft/draft_line.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>

namespace paceline::draft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<std::int64_t>;

constexpr std::uint64_t kVocabulary = 8;

class DraftLineTest : public testing::Test {
 protected:
  static std::array<float, kVocabulary> logits_of(std::int64_t token) {
    std::array<float, kVocabulary> logits = {};
    logits.at(static_cast<std::size_t>(token)) = 1.0F;
    return logits;
  }
  void follow(const Tokens& known, const Tokens& assumed = {}) {
    const Status status = line_.follow(known, assumed, kVocabulary);
    ASSERT_TRUE(status) << status.error().message();
  }
  SentRows rows(std::size_t most = 100) const { return line_.next_rows(spec::LineId(1), most); }
  void settle(const SentRows& sent, std::int64_t token) {
    const auto logits = logits_of(token);
    EXPECT_TRUE(line_.settle(sent, logits, workspace_));
  }
  /// The model's next token is `token`.
  void guess(std::int64_t token) { settle(rows(), token); }

  sampling::SamplingSpec sampling_;
  DraftLine line_{sampling_, 2};
  sampling::Workspace workspace_;
};

TEST_F(DraftLineTest, RowsAreReadInPiecesAndThenGiveAGuessEach) {
  follow({1, 2, 3, 4, 5});
  line_.want(2, 3);
  EXPECT_EQ(line_.rows_behind(), 5U);
  SentRows piece = rows(3);
  EXPECT_THAT(piece.tokens, ElementsAre(1, 2, 3));
  EXPECT_FALSE(piece.is_sampled);
  settle(piece, 0);
  piece = rows();
  EXPECT_EQ(piece.past, 3U);
  EXPECT_THAT(piece.tokens, ElementsAre(4, 5));
  EXPECT_TRUE(piece.is_sampled);
  settle(piece, 6);
  EXPECT_FALSE(line_.is_ready());
  guess(7);
  EXPECT_TRUE(line_.is_ready());
  EXPECT_TRUE(line_.needs_rows()) << "one more is welcome";
  guess(0);
  EXPECT_FALSE(line_.needs_rows());
  EXPECT_THAT(line_.guessed(2), ElementsAre(6, 7));
  EXPECT_EQ(line_.missing_rows(), 1U);
}

TEST_F(DraftLineTest, RightGuessesStayAndWrongOnesGo) {
  follow({1, 2});
  line_.want(3, 4);
  for (const std::int64_t token : {3, 4, 5, 6}) guess(token);
  follow({1, 2, 3, 4});
  EXPECT_THAT(line_.guessed(9), ElementsAre(5, 6));
  EXPECT_EQ(line_.rows_behind(), 0U);
  follow({1, 2, 3, 4}, {5});
  EXPECT_THAT(line_.guessed(9), ElementsAre(6));
  follow({1, 2, 3, 4, 7});
  EXPECT_THAT(line_.guessed(9), IsEmpty());
  EXPECT_EQ(line_.rows_behind(), 1U) << "the wrong one's row is written anew";
  EXPECT_EQ(rows().past, 4U);
}

TEST_F(DraftLineTest, WhatTheTextBecameMeanwhileCounts) {
  follow({1, 2, 3});
  line_.want(2, 2);
  const SentRows sent = rows();
  follow({1, 2, 4});
  EXPECT_EQ(line_.text(), 3U);
  settle(sent, 5);
  EXPECT_EQ(line_.guesses(), 0U) << "it follows another text";
  EXPECT_EQ(line_.missing_rows(), 1U) << "what both begin with is computed";
}

TEST_F(DraftLineTest, RowsOfALongerTextAreKeptButGuessNothing) {
  follow({1, 2});
  line_.want(2, 2);
  const SentRows sent = rows();
  follow({1, 2, 3, 4});
  settle(sent, 7);
  EXPECT_EQ(line_.guesses(), 0U);
  EXPECT_EQ(rows().past, 2U);
}

TEST_F(DraftLineTest, LostRowsAreNotCountedWhenTheyCome) {
  follow({1, 2, 3});
  line_.want(1, 1);
  const SentRows sent = rows();
  line_.forget_rows();
  settle(sent, 4);
  EXPECT_EQ(line_.guesses(), 0U);
  EXPECT_EQ(line_.missing_rows(), 3U);
}

TEST_F(DraftLineTest, AStopTokenEndsTheGuesses) {
  sampling_.stop_tokens = {6};
  DraftLine line(sampling_, 2);
  const Tokens known = {1, 2};
  ASSERT_TRUE(line.follow(known, {}, kVocabulary));
  line.want(4, 8);
  ASSERT_TRUE(line.settle(line.next_rows(spec::LineId(1), 9), logits_of(6), workspace_));
  EXPECT_TRUE(line.is_ready());
  EXPECT_FALSE(line.needs_rows());
  const Tokens other = {1, 2, 5};
  ASSERT_TRUE(line.follow(other, {}, kVocabulary));
  EXPECT_TRUE(line.needs_rows()) << "the text went on after all";
}

TEST_F(DraftLineTest, PenaltiesCountTheTextAndTheGuessesThatStand) {
  sampling_.presence_penalty = 0.5;
  DraftLine line(sampling_, 2);
  const Tokens known = {1, 2};
  ASSERT_TRUE(line.follow(known, {}, kVocabulary));
  line.want(3, 3);
  // Token 6 is a little likelier than 7 until it is there.
  std::array<float, kVocabulary> logits = logits_of(6);
  logits[7] = 0.8F;
  const auto guess = [&] {
    ASSERT_TRUE(line.settle(line.next_rows(spec::LineId(1), 9), logits, workspace_));
  };
  guess();
  guess();
  EXPECT_THAT(line.guessed(9), ElementsAre(6, 7));
  const Tokens other = {1, 2, 5};
  ASSERT_TRUE(line.follow(other, {}, kVocabulary));
  guess();
  EXPECT_THAT(line.guessed(9), ElementsAre(6)) << "the wrong guess is not counted any more";
}

TEST_F(DraftLineTest, LogitsThatAreNoNumbersEndTheGuesses) {
  follow({1, 2});
  line_.want(2, 2);
  std::array<float, kVocabulary> logits = {};
  logits[3] = NAN;
  const Status status = line_.settle(rows(), logits, workspace_);
  ASSERT_FALSE(status);
  EXPECT_TRUE(line_.is_ready());
  EXPECT_FALSE(line_.needs_rows());
}

}  // namespace
}  // namespace paceline::draft
