#include "text/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

using testing::HasSubstr;

void apply(const nlohmann::ordered_json& group, model::Vocabulary& vocabulary) {
  vocabulary.pre = group.value("pre", "");
  vocabulary.add_bos = group.at("add_bos");
  vocabulary.add_eos = group.at("add_eos");
  vocabulary.add_space_prefix = group.value("add_space_prefix", true);
}

TEST(TokenizerJsonTest, IdsEqualThoseOfAnIndependentReader) {
  std::size_t cases = 0;
  for (const auto& group : golden_file("tokenizer_golden.json")) {
    if (group["vocabulary"] == "smollm2") continue;
    model::Vocabulary vocabulary = test_vocabulary(group["vocabulary"]);
    apply(group, vocabulary);
    const Tokenizer tokenizer = tokenizer_of(vocabulary);
    for (const auto& item : group["cases"]) {
      const std::string text = item["text"];
      EXPECT_EQ(tokenizer.encode(text, true).value(), item["ids"].get<Ids>())
          << group["vocabulary"] << " " << vocabulary.pre << " " << item["text"];
      ++cases;
    }
  }
  EXPECT_GT(cases, 250U);
}

TEST(TokenizerJsonTest, BosAndEosAreAddedAsTheFileSays) {
  model::Vocabulary vocabulary = test_vocabulary("bpe");
  const Ids plain = tokenizer_of(vocabulary).encode("the line", true).value();
  vocabulary.add_bos = true;
  Ids with_bos = plain;
  with_bos.insert(with_bos.begin(), vocabulary.bos_id);
  EXPECT_EQ(tokenizer_of(vocabulary).encode("the line", true).value(), with_bos);
  EXPECT_EQ(tokenizer_of(vocabulary).encode("the line", false).value(), plain);
  vocabulary.add_eos = true;
  with_bos.push_back(vocabulary.eos_id);
  EXPECT_EQ(tokenizer_of(vocabulary).encode("the line", true).value(), with_bos);
}

TEST(TokenizerJsonTest, BosIsAddedAsThePreTokenizersModelsDoWhereTheFileIsSilent) {
  const auto adds_bos = [](const char* name, const char* pre) {
    model::Vocabulary vocabulary = test_vocabulary(name);
    vocabulary.pre = pre;
    EXPECT_FALSE(vocabulary.add_bos.has_value());
    return tokenizer_of(vocabulary).encode("the", true)->front() == vocabulary.bos_id;
  };
  EXPECT_TRUE(adds_bos("sentencepiece", "default"));
  for (const char* pre : {"llama-bpe", "tekken"}) EXPECT_TRUE(adds_bos("bpe", pre)) << pre;
  for (const char* pre : {"smollm", "gpt-2", "qwen2", "dbrx", "gpt-4o", "refact"}) {
    EXPECT_FALSE(adds_bos("bpe", pre)) << pre;
  }
  model::Vocabulary without = test_vocabulary("sentencepiece");
  without.bos_id = -1;
  EXPECT_TRUE(tokenizer_json_from(without).has_value());
}

TEST(TokenizerJsonTest, TheUnknownTokenIsKnownByItsType) {
  model::Vocabulary vocabulary = test_vocabulary("sentencepiece");
  vocabulary.unknown_id = -1;
  vocabulary.tokens[3 + 0xF0] = "no byte";
  const Tokenizer tokenizer = tokenizer_of(vocabulary);
  EXPECT_THAT(tokenizer.encode("\xF0\x9F\x98\x80", false).value(), testing::Contains(0));
}

TEST(TokenizerJsonTest, OlderGemmasKnowTheTabByItsByte) {
  model::Vocabulary vocabulary = test_vocabulary("gemma");
  vocabulary.architecture = "gemma2";
  vocabulary.add_bos = vocabulary.add_space_prefix = false;
  const auto id_of = [&](const std::string& token) {
    return std::ranges::find(vocabulary.tokens, token) - vocabulary.tokens.begin();
  };
  const auto byte = id_of("<0x09>");
  const auto two = id_of("\t\t");
  vocabulary.tokens[static_cast<std::size_t>(id_of("\t"))] = "<unused>";
  vocabulary.token_types[static_cast<std::size_t>(two)] = 1;
  const Tokenizer tokenizer = tokenizer_of(vocabulary);
  EXPECT_EQ(tokenizer.encode("\t", false).value(), Ids{byte});
  EXPECT_EQ(tokenizer.encode("\t\t", false).value(), Ids{two}) << "merged";
  EXPECT_EQ(tokenizer.decode(Ids{byte, two}, false).value(), "\t\t\t");
}

/// Each rule of splitting goes over long runs without giving up on them.
void expect_run_kept(const char* pre, const std::string& part, int times) {
  model::Vocabulary vocabulary = test_vocabulary("bpe");
  vocabulary.pre = pre;
  vocabulary.add_bos = false;
  const Tokenizer tokenizer = tokenizer_of(vocabulary);
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  const Ids end = tokenizer.encode(".1.the end", false).value();
  const Ids ids = tokenizer.encode(text + ".1.the end", false).value();
  EXPECT_EQ(tokenizer.decode(ids, false).value(), text + ".1.the end") << pre;
  ASSERT_GT(ids.size(), end.size());
  EXPECT_TRUE(std::equal(end.rbegin(), end.rend() - 1, ids.rbegin())) << pre << " " << part;
}

TEST(TokenizerJsonTest, RunsOfAnyLengthKeepTheirIds) {
  for (const char* pre :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "tekken", "deepseek-v3"}) {
    for (const char* part : {" ", "\n", "x", "7", "!", "\u4f60"}) expect_run_kept(pre, part, 20000);
  }
  expect_run_kept("llama-bpe", " ", 1'200'000);
  expect_run_kept("gpt-2", " ", 1'200'000);
}

TEST(TokenizerJsonTest, Qwen2ComposesCharacters) {
  model::Vocabulary vocabulary = test_vocabulary("bpe");
  vocabulary.pre = "qwen2";
  const Tokenizer tokenizer = tokenizer_of(vocabulary);
  EXPECT_EQ(tokenizer.encode("e\u0301", false).value(), tokenizer.encode("\u00e9", false).value());
}

TEST(TokenizerJsonTest, SentencePieceTextSurvivesWithAndWithoutTheDummyPrefix) {
  model::Vocabulary vocabulary = test_vocabulary("sentencepiece");
  for (const bool prefix : {true, false}) {
    vocabulary.add_space_prefix = prefix;
    const Tokenizer tokenizer = tokenizer_of(vocabulary);
    for (const char* text : {"the line", " the  line ", "你好\n\xF0\x9F\x98\x80"}) {
      const Ids ids = tokenizer.encode(text, false).value();
      EXPECT_EQ(tokenizer.decode(ids, true).value(), text) << prefix;
    }
  }
}

TEST(TokenizerJsonTest, WithoutTokenTypesBosAndEosAreStillSpecial) {
  model::Vocabulary vocabulary = test_vocabulary("bpe");
  vocabulary.token_types.clear();
  const Tokenizer tokenizer = tokenizer_of(vocabulary);
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(0));
}

struct BadCase {
  const char* vocabulary;
  std::function<void(model::Vocabulary&)> damage;
  const char* message;
};

void expect_refused(const BadCase& bad, ErrorCode code) {
  model::Vocabulary vocabulary = test_vocabulary(bad.vocabulary);
  bad.damage(vocabulary);
  const auto json = tokenizer_json_from(vocabulary);
  ASSERT_FALSE(json.has_value()) << bad.message;
  EXPECT_EQ(json.error().code(), code);
  EXPECT_THAT(json.error().message(), HasSubstr(bad.message));
}

TEST(TokenizerJsonTest, UnknownModelsAndPreTokenizersAreNamed) {
  expect_refused({"bpe", [](auto& v) { v.model = "t5"; },
                  "tokenizer.ggml.model: is \"t5\", expected \"gpt2\" or \"llama\""},
                 ErrorCode::kUnimplemented);
  for (const auto& [pre, message] : {std::pair("chameleon", "is \"chameleon\", expected one of"),
                                     std::pair("default", "is \"default\", expected one of"),
                                     std::pair("", "is missing, expected one of gpt-2, smollm")}) {
    expect_refused({"bpe", [&](auto& v) { v.pre = pre; }, message}, ErrorCode::kUnimplemented);
  }
}

/// Thousands of tokens, each as long as is allowed: their splits would be looked up for minutes.
void lengthen_tokens(model::Vocabulary& vocabulary) {
  for (int i = 0; i < 5000; ++i) {
    std::string token = fmt::format("{:04}", i);
    token.resize(kMaxTokenBytes, 'x');
    vocabulary.tokens.push_back(token);
    vocabulary.token_types.push_back(1);
    vocabulary.scores.push_back(-1.0F);
  }
}

TEST(TokenizerJsonTest, ContradictionsAreRefusedWithTheKeyNamed) {
  const BadCase cases[] = {
      {"bpe", [](auto& v) { v.tokens.clear(); }, "tokenizer.ggml.tokens: is empty"},
      {"bpe", [](auto& v) { v.tokens[7] = v.tokens[5]; }, "tokens[7]: repeats token 5"},
      {"bpe", [](auto& v) { v.tokens[7] = "\xFF"; }, "tokens[7]: is not UTF-8"},
      {"bpe", [](auto& v) { v.tokens[7] = std::string(1025, 'x'); }, "tokens[7]: has 1025 bytes"},
      {"bpe", [](auto& v) { v.token_types.pop_back(); }, "tokenizer.ggml.token_type: has "},
      {"bpe", [](auto& v) { v.token_types[4] = 9; }, "token_type[4]: is 9, expected 1 to 6"},
      {"bpe", [](auto& v) { v.merges[3] = "ab"; }, "merges[3]: expected two tokens"},
      {"bpe", [](auto& v) { v.merges[3] = "a nowhere"; }, "merges[3]: \"nowhere\" is no token"},
      {"bpe", [](auto& v) { v.merges[3] = "z z"; }, "merges[3]: \"zz\" is no token"},
      {"bpe", [](auto& v) { v.bos_id = 100000; }, "tokenizer.ggml.bos_token_id: is 100000"},
      {"bpe", [](auto& v) { v.eos_id = -2; }, "tokenizer.ggml.eos_token_id: is -2"},
      {"bpe", [](auto& v) { v.unknown_id = 1 << 30; }, "tokenizer.ggml.unknown_token_id: is "},
      {"bpe", [](auto& v) { v.padding_id = 1 << 30; }, "tokenizer.ggml.padding_token_id: is "},
      {"sentencepiece", [](auto& v) { lengthen_tokens(v); },
       "has too many long tokens, from tokens[4663] on"},
      {"bpe", [](auto& v) { v.add_bos = true, v.bos_id = -1; }, "bos_token_id: is missing"},
      {"bpe", [](auto& v) { v.add_eos = true, v.eos_id = -1; }, "eos_token_id: is missing"},
      {"sentencepiece", [](auto& v) { v.scores.pop_back(); }, "tokenizer.ggml.scores: has "},
      {"sentencepiece", [](auto& v) { v.scores[9] = std::numeric_limits<float>::quiet_NaN(); },
       "scores[9]: is not a number"},
      {"sentencepiece",
       [](auto& v) { v.unknown_id = -1, v.token_types[0] = 1, v.tokens[3 + 0x41] = "<0x41"; },
       "unknown_token_id: is missing, and so is the token <0x41>"},
  };
  for (const BadCase& bad : cases) expect_refused(bad, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline::text
