#include "text/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

struct Place {
  std::vector<std::uint32_t> words;
  bool may_end = false;

  bool allows(std::int64_t id) const {
    const auto word = static_cast<std::size_t>(id) / 32;
    return word < words.size() && (words[word] >> (id % 32) & 1U) != 0;
  }
  std::vector<std::uint32_t> allowed() const {
    std::vector<std::uint32_t> ids;
    for (std::uint32_t id = 0; id < words.size() * 32; ++id) {
      if (allows(id)) ids.push_back(id);
    }
    return ids;
  }
};

/// A vocabulary with its grammars. `name`: of test_vocabulary().
class Words {
 public:
  explicit Words(const std::string& name)
      : tokenizer_(test_tokenizer(name)),
        vocabulary_(GrammarVocabulary::create(tokenizer_).value()) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }

  Result<Grammar> compile(GrammarKind kind, std::string text) const {
    return vocabulary_.compile({kind, std::move(text)});
  }

  GrammarMatcher matcher(GrammarKind kind, std::string text = {}) const {
    const auto grammar = compile(kind, std::move(text));
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message();
    return grammar.value().matcher().value();
  }

  Place place(GrammarMatcher& matcher) const {
    Place place;
    place.words.resize(static_cast<std::size_t>(tokenizer_.vocabulary_size() + 31) / 32, ~0U);
    const auto may_end = matcher.mask(place.words);
    EXPECT_TRUE(may_end.has_value()) << may_end.error().message();
    place.may_end = may_end.value_or(false);
    EXPECT_TRUE(place.may_end || !place.allowed().empty());
    return place;
  }

  /// How much of `text` the grammar takes, by tokens that the masks allow, and whether it may end.
  std::pair<std::string, bool> follow(GrammarMatcher matcher, const std::string& text) const {
    std::string taken;
    const auto ids = tokenizer_.encode(text, false);
    for (const std::int64_t id : ids.value()) {
      const Place here = place(matcher);
      if (!here.allows(id)) return {taken, here.may_end};
      const auto token = static_cast<std::uint32_t>(id);
      EXPECT_TRUE(matcher.commit({&token, 1}).has_value());
      taken += tokenizer_.token_bytes(id);
    }
    return {taken, place(matcher).may_end};
  }

  bool accepts(GrammarKind kind, const std::string& grammar, const std::string& text) const {
    return follow(matcher(kind, grammar), text) == std::pair(text, true);
  }

  /// A text of the grammar by tokens drawn from the masks; it ends where it may with one in four.
  std::string wander(GrammarMatcher matcher, std::uint32_t seed) const {
    std::mt19937 random(seed);
    std::string text;
    for (int step = 0; step < 2000; ++step) {
      const Place here = place(matcher);
      const auto allowed = here.allowed();
      if (allowed.empty() || (here.may_end && random() % 4 == 0)) return text;
      const std::uint32_t token = allowed[random() % allowed.size()];
      EXPECT_FALSE(tokenizer_.is_special(token)) << token;
      EXPECT_TRUE(matcher.commit({&token, 1}).has_value());
      text += tokenizer_.token_bytes(token);
    }
    ADD_FAILURE() << "no end: " << text;
    return text;
  }

 private:
  Tokenizer tokenizer_;
  GrammarVocabulary vocabulary_;
};

const Words& bpe() {
  static const Words words("bpe");
  return words;
}

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

/// Compiled, or some masks on: it ends with an error, or goes on within the bound.
void expect_bounded(const Words& words, GrammarKind kind, const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  const auto grammar = words.compile(kind, text);
  if (grammar) {
    GrammarMatcher matcher = grammar->matcher().value();
    std::mt19937 random(1);
    Place place;
    place.words.resize(static_cast<std::size_t>(words.tokenizer().vocabulary_size() + 31) / 32);
    for (int step = 0; step < 100 && matcher.mask(place.words); ++step) {
      const auto allowed = place.allowed();
      if (allowed.empty()) break;
      const std::uint32_t token = allowed[random() % allowed.size()];
      if (!matcher.commit({&token, 1})) break;
    }
  }
  // The limit is 2 s; the rest is for a machine that is busy.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << text.substr(0, 80);
}

/// Each definition has the one before twice.
std::string doubled_schema() {
  std::string schema = R"({"$defs": {"d0": {"type": "object", "properties": {"a": {}}})";
  for (int i = 1; i <= 40; ++i) {
    const std::string before = "{\"$ref\": \"#/$defs/d" + std::to_string(i - 1) + "\"}";
    schema += ", \"d" + std::to_string(i) + "\": {\"anyOf\": [" + before + ", {\"allOf\": [" +
              before + ", " + before + "]}]}";
  }
  return schema + R"(}, "$ref": "#/$defs/d40"})";
}

TEST(Grammar, WhatIsBuiltToExplodeIsBounded) {
  const std::vector<std::pair<GrammarKind, std::string>> cases = {
      {GrammarKind::kRegex, "((((a{1,100}){1,100}){1,100}){1,100}){1,100}"},
      {GrammarKind::kRegex, "(.*a.*b.*c){1000}"},
      {GrammarKind::kRegex, "(a|b)*a(a|b){100}"},
      {GrammarKind::kRegex, "(.*[ab].{20}){3}"},
      {GrammarKind::kRegex, "(x+x+)+y|(\\w+\\s?)*z{60000}"},
      {GrammarKind::kRegex, "(a{4000000000}){5}"},
      {GrammarKind::kJsonSchema, R"({"type": "string", "minLength": 1000000000})"},
      {GrammarKind::kJsonSchema, R"({"type": "array", "items": {}, "minItems": 1000000000})"},
      {GrammarKind::kJsonSchema, R"({"type": "string", "pattern": "^((a{1,99}){1,99}){1,99}$"})"},
      {GrammarKind::kLark,
       "start: a a a a a a\na: b b b b b b\nb: c c c c c c\nc: \"x\" | \"\" | c c"},
  };
  for (const auto& [kind, text] : cases) expect_bounded(bpe(), kind, text);
}

TEST(Grammar, WhatMeetsALimitIsRefusedAndOthersGoOn) {
  const auto refusal = [](GrammarKind kind, const std::string& text) {
    const auto grammar = bpe().compile(kind, text);
    EXPECT_FALSE(grammar.has_value()) << text.substr(0, 80);
    return grammar ? "" : grammar.error().message();
  };
  EXPECT_EQ(refusal(GrammarKind::kJsonSchema, doubled_schema()), "JSON schema: schema too large");
  const char* states = R"({"type": "integer", "multipleOf": 99999989})";
  EXPECT_EQ(refusal(GrammarKind::kJsonSchema, states),
            "JSON schema: needs more than 64 MiB of memory");
  EXPECT_EQ(refusal(GrammarKind::kJsonSchema, states),
            "JSON schema: was refused before: it met a limit of memory or time");
  EXPECT_TRUE(bpe().accepts(GrammarKind::kJsonObject, "", "{}"));
}

}  // namespace
}  // namespace paceline::text
