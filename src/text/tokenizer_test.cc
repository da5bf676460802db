#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "system/files.h"
#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(TokenizerTest, EncodesAndDecodes) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const std::string text = "The riders change places; 365 days, 你好 \xF0\x9F\x98\x80\n";
  const Ids ids = tokenizer.encode(text, false).value();
  EXPECT_LT(ids.size(), text.size());
  EXPECT_EQ(tokenizer.decode(ids, true).value(), text);
  EXPECT_EQ(tokenizer.encode("", false).value(), Ids{});
  EXPECT_EQ(tokenizer.decode({}, true).value(), "");
}

TEST(TokenizerTest, SpecialTokensAreParsedAndSkipped) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const Ids ids = tokenizer.encode("<|im_start|>a<tool>", false).value();
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(tokenizer.decode(ids, true).value(), "a<tool>");
  EXPECT_EQ(tokenizer.decode(ids, false).value(), "<|im_start|>a<tool>");
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.token_id("<tool>")));
}

TEST(TokenizerTest, BytesOfTokensAddUpToTheText) {
  const std::string text = "The riders, 你好 \xF0\x9F\x98\x80\n";
  for (const char* name : {"bpe", "sentencepiece"}) {
    const Tokenizer tokenizer = test_tokenizer(name);
    std::string bytes;
    const Ids ids = tokenizer.encode(text, false).value();
    for (const std::int64_t id : ids) bytes += tokenizer.token_bytes(id);
    // SentencePiece puts a space before the text.
    EXPECT_EQ(bytes, (name == std::string("bpe") ? "" : " ") + text) << name;
    EXPECT_EQ(tokenizer.token_bytes(tokenizer.vocabulary_size()), "");
    EXPECT_EQ(tokenizer.token_bytes(-1), "");
  }
  EXPECT_EQ(test_tokenizer("bpe").token_bytes(1), "<|im_start|>");
}

TEST(TokenizerTest, VocabularySizeAndTokenIds) {
  const model::Vocabulary vocabulary = test_vocabulary("bpe");
  const Tokenizer tokenizer = tokenizer_of(vocabulary);
  EXPECT_EQ(tokenizer.vocabulary_size(), static_cast<std::int64_t>(vocabulary.tokens.size()));
  EXPECT_EQ(tokenizer.token_id("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer.token_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.token_id("\xFF\xFE"), std::nullopt);
}

TEST(TokenizerTest, BytesThatAreNoUtf8AreReadAsReplacementCharacters) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  EXPECT_EQ(tokenizer.encode("a\xFF\xE4\xBDz", false).value(),
            tokenizer.encode("a\uFFFD\uFFFDz", false).value());
  EXPECT_EQ(tokenizer.encode(std::string_view("a\0b", 3), false).value().size(), 3U);
}

TEST(TokenizerTest, IdsWithoutATokenGiveNothingAndImpossibleOnesAreRefused) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const std::int64_t a = *tokenizer.token_id("a");
  EXPECT_EQ(tokenizer.decode(Ids{a, 1 << 20, a}, true).value(), "aa");
  EXPECT_EQ(tokenizer.decode(Ids{a, -1}, true).error().code(), ErrorCode::kOutOfRange);
  EXPECT_THAT(tokenizer.decode(Ids{std::int64_t{1} << 32}, true).error().message(),
              StartsWith("token id 4294967296: expected 0 to "));
}

TEST(TokenizerTest, ALongTextWithoutASpaceTakesNoQuadraticTime) {
  const Tokenizer tokenizer = test_tokenizer("sentencepiece");
  const std::string text(400000, 'e');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false).value(), true).value(), text);
}

TEST(TokenizerTest, TruncationAndPaddingOfTheFileAreSwitchedOff) {
  auto json = nlohmann::json::parse(tokenizer_json_from(test_vocabulary("bpe")).value());
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const Tokenizer tokenizer = Tokenizer::parse(json.dump()).value();
  EXPECT_EQ(tokenizer.encode("abc xyz 123", false).value(),
            test_tokenizer("bpe").encode("abc xyz 123", false).value());
}

TEST(TokenizerTest, IsUsableFromSeveralThreads) {
  const Tokenizer tokenizer = test_tokenizer("bpe");
  const Ids expected = tokenizer.encode("The riders change places", false).value();
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        same += tokenizer.encode("The riders change places", false) == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 200);
}

class TokenizerFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "paceline_text_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path write(const std::string& content) {
    const auto path = directory_ / "tokenizer.json";
    EXPECT_TRUE(system::write_file_atomically(path, content).has_value());
    return path;
  }

  std::filesystem::path directory_;
};

TEST_F(TokenizerFileTest, Loads) {
  const auto path = write(tokenizer_json_from(test_vocabulary("bpe")).value());
  EXPECT_EQ(Tokenizer::load(path).value().token_id("<|im_end|>"), 2);
}

TEST_F(TokenizerFileTest, WhatIsNoTokenizerIsRefusedInOneLineThatNamesTheFile) {
  const std::string good = tokenizer_json_from(test_vocabulary("bpe")).value();
  const std::vector<std::string> contents = {"",
                                             "{",
                                             "null",
                                             "[]",
                                             "{}",
                                             "\xFF\xFE",
                                             "{\"model\": {\"type\": \"BPE\"}}",
                                             good.substr(0, good.size() / 2),
                                             std::string(100000, '['),
                                             "{\n\"version\": \"1.0\",\n\"model\": 3}"};
  for (const std::string& content : contents) {
    const auto path = write(content);
    const auto tokenizer = Tokenizer::load(path);
    ASSERT_FALSE(tokenizer.has_value()) << content.substr(0, 40);
    EXPECT_EQ(tokenizer.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(tokenizer.error().message(), StartsWith(path.string() + ": no tokenizer.json: "));
    EXPECT_EQ(tokenizer.error().message().find('\n'), std::string::npos);
  }
}

TEST(TokenizerTest, DamagedFilesAreReadOrRefusedButNeverCrash) {
  const std::string good = tokenizer_json_from(test_vocabulary("bpe")).value();
  std::mt19937 random(20240605);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string json = good;
    // The rules stand at both ends, around the vocabulary.
    const std::size_t end = round % 2 == 0 ? 1200 : json.size();
    for (int i = 0; i < 3; ++i) json[random() % end] = static_cast<char>(random() % 128);
    const auto tokenizer = Tokenizer::parse(json);
    if (!tokenizer) {
      ++refused;
      continue;
    }
    const auto ids = tokenizer->encode("The riders 365 \n<|im_end|> you're", true);
    if (ids) {
      EXPECT_TRUE(tokenizer->decode(*ids, false).has_value());
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 400);
}

nlohmann::json good_json() {
  return nlohmann::json::parse(tokenizer_json_from(test_vocabulary("bpe")).value());
}

nlohmann::json split_by(const std::string& regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TEST(TokenizerTest, HostileRulesAndTokensAreRefused) {
  const auto refused_after = [](const std::function<void(nlohmann::json&)>& damage) {
    nlohmann::json json = good_json();
    damage(json);
    const auto tokenizer = Tokenizer::parse(json.dump());
    return tokenizer ? "is read" : tokenizer.error().message();
  };
  EXPECT_THAT(
      refused_after([](auto& json) { json["model"]["vocab"][std::string(1 << 20, 'x')] = 5000; }),
      HasSubstr("token 5000: has 1048576 bytes, at most 65536 are read"));
  EXPECT_THAT(refused_after([](auto& json) {
                json["model"]["merges"][0] = {"ab", "no token"};
              }),
              HasSubstr("no tokenizer.json"));
  EXPECT_THAT(refused_after([](auto& json) { json["model"]["vocab"]["zz"] = 4294967296; }),
              HasSubstr("no tokenizer.json"));
  EXPECT_THAT(refused_after([](auto& json) { json["model"]["vocab"]["zz"] = -1; }),
              HasSubstr("no tokenizer.json"));
  EXPECT_THAT(refused_after([](auto& json) {
                json["pre_tokenizer"] = split_by("((\\p{L}{1000}){1000}){1000}");
              }),
              HasSubstr("no tokenizer.json"));
  EXPECT_THAT(refused_after([](auto& json) {
                for (int i = 0; i < 200; ++i) {
                  json["pre_tokenizer"] = {{"type", "Sequence"},
                                           {"pretokenizers", {json["pre_tokenizer"]}}};
                }
              }),
              HasSubstr("no tokenizer.json"));
}

TEST(TokenizerTest, PatternsThatBacktrackEndInTime) {
  for (const char* regex : {"(a+)+$", "(?=(a+)+b)a", "(a|aa)+(?!a)b", "(a*)*\\1b"}) {
    nlohmann::json json = good_json();
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {split_by(regex), good_json()["pre_tokenizer"]["pretokenizers"][1]}}};
    const auto tokenizer = Tokenizer::parse(json.dump());
    ASSERT_TRUE(tokenizer) << regex << tokenizer.error().message();
    const std::string text(2000, 'a');
    const auto ids = tokenizer->encode(text, false);
    if (!ids) continue;
    EXPECT_EQ(tokenizer->decode(*ids, false).value(), text) << regex;
  }
}

TEST(TokenizerTest, IdsMayBeAsLargeAsTheyAre) {
  nlohmann::json json = good_json();
  json["model"]["vocab"]["zz"] = 4294967295U;
  const Tokenizer tokenizer = Tokenizer::parse(json.dump()).value();
  EXPECT_EQ(tokenizer.vocabulary_size(), std::int64_t{1} << 32);
  EXPECT_EQ(tokenizer.token_id("zz"), 4294967295);
}

TEST_F(TokenizerFileTest, AMissingOrHugeFileIsRefused) {
  const auto missing = Tokenizer::load(directory_ / "none.json");
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("none.json"));
  const auto path = write("{}");
  std::filesystem::resize_file(path, Tokenizer::kMaxFileBytes + 1);
  EXPECT_THAT(Tokenizer::load(path).error().message(), HasSubstr("at most 268435456 are read"));
}

}  // namespace
}  // namespace paceline::text
