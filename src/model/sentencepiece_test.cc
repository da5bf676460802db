#include "model/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "model/sentencepiece_testing.h"

namespace paceline::model {
namespace {

using testing::HasSubstr;

Vocabulary small() {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = {"<unk>", "<s>", "</s>", "<0x41>", "\xE2\x96\x81", "<tool>"};
  vocabulary.scores = {0.0F, 0.0F, 0.0F, 0.0F, -1.5F, 0.0F};
  vocabulary.token_types = {2, 3, 3, 6, 1, 4};
  vocabulary.unknown_id = 0;
  vocabulary.bos_id = 1;
  vocabulary.eos_id = 2;
  return vocabulary;
}

TEST(SentencePieceTest, ReadsPiecesScoresTypesAndIds) {
  for (const bool prefix : {true, false}) {
    Vocabulary expected = small();
    expected.add_space_prefix = prefix;
    const auto vocabulary = parse_sentencepiece(write_sentencepiece(expected));
    ASSERT_TRUE(vocabulary) << vocabulary.error().message();
    EXPECT_EQ(vocabulary->model, "llama");
    EXPECT_EQ(vocabulary->tokens, expected.tokens);
    EXPECT_EQ(vocabulary->scores, expected.scores);
    EXPECT_EQ(vocabulary->token_types, expected.token_types);
    EXPECT_EQ(vocabulary->unknown_id, 0);
    EXPECT_EQ(vocabulary->bos_id, 1);
    EXPECT_EQ(vocabulary->eos_id, 2);
    EXPECT_EQ(vocabulary->padding_id, -1);
    EXPECT_EQ(vocabulary->add_space_prefix, prefix);
    EXPECT_EQ(vocabulary->add_bos, std::nullopt);
  }
}

TEST(SentencePieceTest, IdsThatAreNegativeAreNone) {
  Vocabulary vocabulary = small();
  vocabulary.bos_id = vocabulary.eos_id = -1;
  const auto read = parse_sentencepiece(write_sentencepiece(vocabulary));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->bos_id, -1);
  EXPECT_EQ(read->eos_id, -1);
}

TEST(SentencePieceTest, DefaultsAreThoseOfTheFormat) {
  const std::string piece = protobuf_bytes(1, protobuf_bytes(1, "a"));
  const std::string bpe = protobuf_bytes(2, protobuf_number(3, 2));
  const auto vocabulary =
      parse_sentencepiece(piece + bpe + protobuf_bytes(3, protobuf_number(4, 0)));
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->token_types, std::vector<std::int32_t>{1});
  EXPECT_EQ(vocabulary->unknown_id, 0);
  EXPECT_EQ(vocabulary->eos_id, 2);
  EXPECT_TRUE(vocabulary->add_space_prefix);
  EXPECT_THAT(parse_sentencepiece(piece).error().message(), HasSubstr("model_type: is 1"));
  EXPECT_THAT(parse_sentencepiece(piece + bpe).error().message(),
              HasSubstr("remove_extra_whitespaces: expected false"));
}

TEST(SentencePieceTest, RulesThatNoTokenizerJsonOfOursHasAreNamed) {
  const std::pair<SentencePieceExtras, const char*> cases[] = {
      {{protobuf_number(3, 1), ""}, "trainer_spec.model_type: is 1, expected 2 (BPE)"},
      {{protobuf_number(24, 1), ""}, "trainer_spec.treat_whitespace_as_suffix: expected false"},
      {{"", protobuf_bytes(2, "table")}, "normalizer_spec.precompiled_charsmap: expected none"},
      {{"", protobuf_number(4, 1)}, "normalizer_spec.remove_extra_whitespaces: expected false"},
      {{"", protobuf_number(5, 0)}, "normalizer_spec.escape_whitespaces: expected true"},
  };
  for (const auto& [extras, message] : cases) {
    const auto vocabulary = parse_sentencepiece(write_sentencepiece(small(), extras));
    ASSERT_FALSE(vocabulary) << message;
    EXPECT_EQ(vocabulary.error().code(), ErrorCode::kUnimplemented);
    EXPECT_THAT(vocabulary.error().message(), HasSubstr(message));
  }
}

TEST(SentencePieceTest, BrokenMessagesAreRefusedWithTheirPlace) {
  const std::string good = write_sentencepiece(small());
  const std::pair<std::string, const char*> cases[] = {
      {"", "has no pieces"},
      {"\x0a", "byte 1: the message ends within a number"},
      {"\x0a\x05"
       "abc",
       "byte 2: a field is longer than the message"},
      {"\x0b", "byte 1: a field's type is unknown"},
      {std::string("\x00\x01", 2), "byte 1: a field's number is out of range"},
      {std::string(11, '\xff'), "byte 10: a number has more than ten bytes"},
      {protobuf_bytes(1, "\x15zz"), "pieces[0]: byte 1: the message ends within a number"},
      {protobuf_bytes(1, protobuf_number(3, 7)), "pieces[0]: type: is 7, expected 1 to 6"},
      {good + protobuf_bytes(2, "\x08"), "trainer_spec: byte 1: the message ends"},
      {good.substr(0, good.size() - 1), "a field is longer than the message"},
  };
  for (const auto& [bytes, message] : cases) {
    const auto vocabulary = parse_sentencepiece(bytes);
    ASSERT_FALSE(vocabulary) << message;
    EXPECT_EQ(vocabulary.error().code(), ErrorCode::kDataLoss);
    EXPECT_THAT(vocabulary.error().message(), HasSubstr(message));
  }
}

TEST(SentencePieceTest, MillionsOfEmptyPiecesAreRefused) {
  std::string bytes;
  for (std::size_t i = 0; i <= kMaxPieces; ++i) bytes += std::string("\x0a\x00", 2);
  EXPECT_THAT(parse_sentencepiece(bytes).error().message(), HasSubstr("at most 1048576 pieces"));
}

TEST(SentencePieceTest, DamagedMessagesAreReadOrRefusedButNeverCrash) {
  const std::string good = write_sentencepiece(small());
  std::mt19937 random(20240606);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    }
    const auto vocabulary = parse_sentencepiece(bytes);
    if (!vocabulary) {
      ++refused;
    } else {
      EXPECT_EQ(vocabulary->tokens.size(), vocabulary->scores.size());
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 2000);
}

TEST(SentencePieceTest, AMissingFileIsNamed) {
  EXPECT_EQ(read_sentencepiece("/nowhere/tokenizer.model").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace paceline::model
