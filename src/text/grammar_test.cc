#include "text/grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "text/grammar_testing.h"

namespace paceline::text {
namespace {

const Words& sentencepiece() {
  static const Words words("sentencepiece");
  return words;
}

constexpr char kPerson[] = R"({"type": "object", "additionalProperties": false,
  "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99},
                 "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 2},
                 "home": {"type": "object", "properties": {"open": {"type": "boolean"}}, "required": ["open"],
                          "additionalProperties": false}},
  "required": ["kind", "age", "tags", "home"]})";

TEST(Grammar, JsonObjects) {
  for (const char* text :
       {R"({})", R"({"a": 1})", R"({"a": [1, true, null, "x"], "b": {"c": -2.5e3}})",
        R"({"a": "\n \" \\ é"})"}) {
    EXPECT_TRUE(bpe().accepts(GrammarKind::kJsonObject, "", text)) << text;
  }
  for (const char* text :
       {"[1]", "1", "x", R"({'a': 1})", R"({"a" 1})", "{\"a\": \"\n\"}", "{} {}"}) {
    EXPECT_FALSE(bpe().accepts(GrammarKind::kJsonObject, "", text)) << text;
  }
}

TEST(Grammar, ATextMayEndWhereItIsWholeAndNowhereElse) {
  const std::string text = R"({"a": [1, "}"]})";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto [taken, may_end] =
        bpe().follow(bpe().matcher(GrammarKind::kJsonObject), text.substr(0, size));
    EXPECT_EQ(taken.size(), size);
    EXPECT_EQ(may_end, size == text.size()) << text.substr(0, size);
  }
}

TEST(Grammar, SchemasHoldWhateverIsDrawn) {
  std::set<std::string> texts;
  for (const Words* words : {&bpe(), &sentencepiece()}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const std::string text =
          words->wander(words->matcher(GrammarKind::kJsonSchema, kPerson), seed);
      const auto json = nlohmann::json::parse(text, nullptr, false);
      ASSERT_TRUE(json.is_object()) << text;
      EXPECT_EQ(json.size(), 4U) << text;
      EXPECT_TRUE(json["kind"] == "cat" || json["kind"] == "dog") << text;
      EXPECT_TRUE(json["age"].is_number_integer() && json["age"] >= 0 && json["age"] <= 99) << text;
      ASSERT_TRUE(json["tags"].is_array() && !json["tags"].empty() && json["tags"].size() <= 2)
          << text;
      EXPECT_TRUE(json["tags"][0].is_string()) << text;
      EXPECT_TRUE(json["home"].size() == 1 && json["home"]["open"].is_boolean()) << text;
      texts.insert(text);
    }
  }
  EXPECT_GT(texts.size(), 30U);
}

TEST(Grammar, RegularExpressionsAreOfTheWholeText) {
  const char* date = R"(\d{4}-(0[1-9]|1[0-2])/x)";
  EXPECT_TRUE(bpe().accepts(GrammarKind::kRegex, date, "2026-11/x"));
  for (const char* text : {"2026-13/x", "2026-11/xy", " 2026-11/x", "2026-11"}) {
    EXPECT_FALSE(bpe().accepts(GrammarKind::kRegex, date, text)) << text;
  }
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const std::string text =
        bpe().wander(bpe().matcher(GrammarKind::kRegex, "[a-f]{3,9}(x|y)z*"), seed);
    EXPECT_TRUE(std::regex_match(text, std::regex("[a-f]{3,9}(x|y)z*"))) << text;
  }
}

TEST(Grammar, Lark) {
  const std::string sum = "start: NUMBER (\" + \" NUMBER)*\nNUMBER: /[0-9]+/";
  EXPECT_TRUE(bpe().accepts(GrammarKind::kLark, sum, "1 + 22 + 3"));
  EXPECT_FALSE(bpe().accepts(GrammarKind::kLark, sum, "1 + "));
  EXPECT_TRUE(bpe().accepts(GrammarKind::kLark, "start: \"yes\" | \"no\"", "no"));
  EXPECT_FALSE(bpe().accepts(GrammarKind::kLark, "start: \"yes\" | \"no\"", "maybe"));
}

TEST(Grammar, TakingBackIsAsIfNothingHadBeen) {
  GrammarMatcher matcher = bpe().matcher(GrammarKind::kJsonSchema, kPerson);
  const Place start = bpe().place(matcher);
  const auto ids = bpe().tokenizer().encode(R"({"kind": "cat", "age": 7)", false).value();
  const std::vector<std::uint32_t> tokens(ids.begin(), ids.end());
  std::vector<Place> places;
  for (const std::uint32_t token : tokens) {
    places.push_back(bpe().place(matcher));
    ASSERT_TRUE(matcher.commit({&token, 1}).has_value());
  }
  const std::size_t half = tokens.size() / 2;
  ASSERT_TRUE(matcher.roll_back(tokens.size() - half).has_value());
  EXPECT_EQ(bpe().place(matcher).words, places[half].words);
  ASSERT_TRUE(matcher.commit(std::span(tokens).subspan(half)).has_value());
  ASSERT_TRUE(matcher.roll_back(tokens.size()).has_value());
  EXPECT_EQ(bpe().place(matcher).words, start.words);
  EXPECT_FALSE(matcher.roll_back(1).has_value());
}

TEST(Grammar, AWholeTextIsTakenBackToo) {
  GrammarMatcher matcher = bpe().matcher(GrammarKind::kLark, "start: \"a\"");
  const auto token = static_cast<std::uint32_t>(bpe().tokenizer().encode("a", false).value().at(0));
  ASSERT_TRUE(matcher.commit({&token, 1}).has_value());
  const Place end = bpe().place(matcher);
  EXPECT_TRUE(end.may_end && end.allowed().empty());
  ASSERT_TRUE(matcher.roll_back(1).has_value());
  const Place start = bpe().place(matcher);
  EXPECT_TRUE(!start.may_end && start.allows(token));
}

TEST(Grammar, TokensThatAreNotAllowedAreRefused) {
  for (const std::uint32_t token :
       {0U, static_cast<std::uint32_t>(bpe().tokenizer().vocabulary_size()), ~0U}) {
    GrammarMatcher matcher = bpe().matcher(GrammarKind::kRegex, "é");
    EXPECT_FALSE(matcher.commit({&token, 1}).has_value()) << token;
  }
}

TEST(Grammar, WhatIsNoneIsRefusedWithAReason) {
  const std::vector<std::tuple<GrammarKind, std::string, std::string>> cases = {
      {GrammarKind::kJsonSchema, "{", "JSON schema: is not JSON"},
      {GrammarKind::kJsonSchema, R"({"type": "thing"})", "JSON schema: "},
      {GrammarKind::kJsonSchema, R"({"$ref": "#/$defs/none"})", "JSON schema: "},
      {GrammarKind::kJsonSchema, R"({"$ref": "https://example.org/schema"})", "JSON schema: "},
      {GrammarKind::kRegex, "(", "regular expression: "},
      {GrammarKind::kRegex, "(?=a)b", "regular expression: "},
      {GrammarKind::kRegex, std::string("a\0b", 3), "regular expression: has a zero byte"},
      {GrammarKind::kRegex, "\xFF", "regular expression: is not UTF-8 at byte 0"},
      {GrammarKind::kLark, "", "grammar: "},
      {GrammarKind::kLark, "start: other", "grammar: "},
      {GrammarKind::kLark, std::string(70'000, 'a'), "grammar: has 70000 bytes, at most 65536"},
      {GrammarKind::kLark, "start: " + std::string(200, '('), "grammar: is nested more than 100"},
  };
  for (const auto& [kind, text, reason] : cases) {
    const auto grammar = bpe().compile(kind, text);
    ASSERT_FALSE(grammar.has_value()) << text;
    EXPECT_EQ(grammar.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(grammar.error().message().substr(0, reason.size()), reason);
  }
}

}  // namespace
}  // namespace paceline::text
