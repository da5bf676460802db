#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include "base/utf8.h"
#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

/// Everything that a stream of `ids` shows; each piece is checked to be whole characters.
std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special_tokens) {
  StreamDecoder decoder(tokenizer, skip_special_tokens);
  std::string text;
  for (const std::int64_t id : ids) {
    const std::string piece = decoder.push(id).value();
    EXPECT_TRUE(is_utf8(piece));
    text += piece;
  }
  return text + decoder.finish().value();
}

TEST(StreamDecoderTest, ACharacterSplitOverTokensIsShownWhole) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const Ids ids = tokenizer.encode("a\xF0\x9F\x98\x80z", false).value();
  ASSERT_EQ(ids.size(), 6U);  // each byte of the emoji is a token of its own
  StreamDecoder decoder(tokenizer, true);
  const std::vector<std::string> expected = {"a", "", "", "", "\xF0\x9F\x98\x80", "z"};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(decoder.push(ids[i]).value(), expected[i]) << i;
  }
  EXPECT_EQ(decoder.finish().value(), "");
}

TEST(StreamDecoderTest, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  Ids ids = tokenizer.encode("a\xF0\x9F\x98\x80", false).value();
  ids.pop_back();
  StreamDecoder decoder(tokenizer, true);
  EXPECT_EQ(decoder.push(ids[0]).value(), "a");
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(decoder.push(ids[i]).value(), "");
  EXPECT_EQ(decoder.finish().value(), "\uFFFD");
  EXPECT_EQ(decoder.push(ids[0]).value(), "a") << "a new stream may start";
}

TEST(StreamDecoderTest, EqualsTheDecodeOfTheWhole) {
  for (const char* name : {"bpe", "sentencepiece"}) {
    const Tokenizer tokenizer = test_tokenizer(name);
    for (const auto& group : golden_file("tokenizer_golden.json")) {
      if (group["vocabulary"] != name) continue;
      for (const auto& item : group["cases"]) {
        const Ids ids = item["ids"].get<Ids>();
        for (const bool skip : {true, false}) {
          EXPECT_EQ(streamed(tokenizer, ids, skip), tokenizer.decode(ids, skip).value())
              << name << " " << item["text"];
        }
      }
    }
  }
}

Ids random_ids(std::mt19937& random, std::size_t count, std::int64_t vocabulary_size) {
  Ids ids(count);
  for (std::int64_t& id : ids) {
    // Bytes (ids 3 to 258) more often than chance has them, so that characters break and form.
    const bool is_byte = random() % 2 == 0;
    id = is_byte ? 3 + static_cast<std::int64_t>(random() % 256)
                 : static_cast<std::int64_t>(random()) % (vocabulary_size + 5);
  }
  return ids;
}

TEST(StreamDecoderTest, EqualsTheDecodeOfTheWholeForRandomBytesToo) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  std::mt19937 random(20240602);
  for (int round = 0; round < 300; ++round) {
    const Ids ids = random_ids(random, 60, tokenizer.vocabulary_size());
    const bool skip = round % 2 == 0;
    ASSERT_EQ(streamed(tokenizer, ids, skip), tokenizer.decode(ids, skip).value()) << round;
  }
}

TEST(StreamDecoderTest, EqualsTheDecodeOfTheWholeForLeadAndContinuationBytes) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const std::vector<int> bytes = {0xE4, 0xBD, 0xA0, 0xF0, 0x9F, 0x98, 0x80, 0xC3, 0xFF, 0x41};
  std::mt19937 random(20240603);
  for (int round = 0; round < 500; ++round) {
    Ids ids(40);
    const std::size_t kinds = round % 3 == 0 ? 9 : 10;  // also with no plain character at all
    for (std::int64_t& id : ids) id = 3 + bytes[random() % kinds];
    ASSERT_EQ(streamed(tokenizer, ids, true), tokenizer.decode(ids, true).value()) << round;
  }
}

TEST(StreamDecoderTest, SpecialTokensBetweenWordsKeepTheSpace) {
  const Tokenizer tokenizer = test_tokenizer("sentencepiece");
  Ids ids = tokenizer.encode("The line", false).value();
  const Ids more = tokenizer.encode("of the house", false).value();
  ids.push_back(2);
  ids.insert(ids.end(), more.begin(), more.end());
  EXPECT_EQ(streamed(tokenizer, ids, true), "The line of the house");
  EXPECT_EQ(streamed(tokenizer, ids, false), tokenizer.decode(ids, false).value());
}

TEST(StreamDecoderTest, ByteFallbackShowsEachCharacterOnceItIsComplete) {
  const Tokenizer tokenizer = test_tokenizer("sentencepiece");
  StreamDecoder decoder(tokenizer, true);
  std::string text;
  for (const int byte : {0xE4, 0xBD, 0xA0, 0xE5, 0xA5, 0xBD}) {
    text += decoder.push(3 + byte).value() + "|";
  }
  EXPECT_EQ(text, "||你|||好|");
  // A late broken byte cannot undo what was shown.
  EXPECT_EQ(decoder.push(3 + 0xFF).value(), "");
  EXPECT_EQ(decoder.push(*tokenizer.token_id("a")).value(), "\uFFFDa");
  EXPECT_EQ(decoder.finish().value(), "");
}

TEST(StreamDecoderTest, ABadIdLeavesTheStreamAsItWas) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const Ids ids = tokenizer.encode("é", false).value();
  ASSERT_EQ(ids.size(), 2U);
  StreamDecoder decoder(tokenizer, true);
  EXPECT_EQ(decoder.push(ids[0]).value(), "");
  EXPECT_EQ(decoder.push(-7).error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(decoder.push(tokenizer.vocabulary_size() + 3).value(), "");
  EXPECT_EQ(decoder.push(ids[1]).value(), "é");
}

TEST(StreamDecoderTest, HoldsBackABoundedNumberOfBrokenTokens) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  StreamDecoder decoder(tokenizer, true);
  std::size_t shown = 0;
  for (std::size_t i = 1; i <= 5000; ++i) {
    shown += decoder.push(3 + 0xFF).value().size() / 3;
    ASSERT_LE(i - shown, 8U);
  }
  EXPECT_EQ(decoder.finish().value().size() / 3, 5000 - shown);
}

}  // namespace
}  // namespace paceline::text
