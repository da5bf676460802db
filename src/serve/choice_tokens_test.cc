#include "serve/choice_tokens.h"

#include <gmock/gmock.h>

#include "text/test_vocabulary.h"

namespace paceline::serve {
namespace {

class ChoiceTokensTest : public testing::Test {
 protected:
  std::vector<wire::Sample> samples(const std::string& text) const {
    std::vector<wire::Sample> all;
    const auto ids = tokenizer_.encode(text, false).value();
    for (const auto id : ids) {
      wire::Sample sample;
      sample.token = id;
      sample.logprob = -1;
      sample.top = {{id, -1}, {7, -3}};
      all.push_back(sample);
    }
    return all;
  }
  static std::string bytes(const std::vector<api::TokenEntry>& entries) {
    std::string all;
    for (const auto& entry : entries) all += entry.token.bytes;
    return all;
  }

  const text::Tokenizer tokenizer_ = text::test_tokenizer("bpe");
  ChoiceTokens tokens_{&tokenizer_, true};
};

TEST_F(ChoiceTokensTest, AnEntryComesWithTheFirstOfItsText) {
  const auto all = samples("a b");
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(bytes(tokens_.push(all, "a")), "a");
  EXPECT_EQ(bytes(tokens_.push({}, " ")), bytes({entry_of(&tokenizer_, all[1].token, 0, {})}));
}

TEST_F(ChoiceTokensTest, WhatAStopStringHidesIsNeverTold) {
  EXPECT_EQ(bytes(tokens_.push(samples("Hi"), "Hi")), "Hi");
  EXPECT_EQ(bytes(tokens_.push(samples(" STOP"), "")), "");
  EXPECT_TRUE(tokens_.finish(ChoiceTokens::End::kStopString).empty());
}

TEST_F(ChoiceTokensTest, TheEndTokenIsNoText) {
  auto all = samples("Hi<|im_end|>");
  EXPECT_EQ(bytes(tokens_.push(all, "Hi")), "Hi");
  EXPECT_TRUE(tokens_.finish(ChoiceTokens::End::kEndToken).empty());
}

TEST_F(ChoiceTokensTest, AtTheLengthsEndAllIsTold) {
  EXPECT_EQ(bytes(tokens_.push(samples(" ST"), "")), "");
  EXPECT_EQ(bytes(tokens_.finish(ChoiceTokens::End::kLength)), " ST");
}

TEST_F(ChoiceTokensTest, RivalsComeAlong) {
  const auto entries = tokens_.push(samples("a"), "a");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].top.size(), 2U);
  EXPECT_EQ(entries[0].top[0].bytes, "a");
  EXPECT_EQ(entries[0].top[1].logprob, -3);
}

TEST_F(ChoiceTokensTest, SentencePiecesFirstSpaceIsNoText) {
  const auto tokenizer = text::test_tokenizer("sentencepiece");
  ChoiceTokens tokens(&tokenizer, true);
  std::vector<wire::Sample> all;
  const auto ids = tokenizer.encode("ab.", false).value();
  for (const auto id : ids) {
    all.emplace_back();
    all.back().token = id;
  }
  const std::size_t count = all.size();
  EXPECT_EQ(tokens.push(all, "ab.").size(), count) << "the last one is not held back";
}

TEST_F(ChoiceTokensTest, WithoutATokenizerNothingIsHeld) {
  ChoiceTokens tokens(nullptr, true);
  EXPECT_EQ(tokens.push(samples("ab"), "").size(), samples("ab").size());
}

}  // namespace
}  // namespace paceline::serve
