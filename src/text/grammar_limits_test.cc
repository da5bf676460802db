#include <chrono>
#include <thread>

#include "system/memory.h"
#include "text/grammar_testing.h"

namespace paceline::text {
namespace {

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

TEST(GrammarLimits, WhatIsBuiltToExplodeIsBounded) {
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

std::string refusal(GrammarKind kind, const std::string& text) {
  const auto grammar = bpe().compile(kind, text);
  EXPECT_FALSE(grammar.has_value()) << text.substr(0, 80);
  return grammar ? "" : grammar.error().message();
}

std::string schema_of_many_states(int divisor) {
  return R"({"type": "integer", "multipleOf": )" + std::to_string(divisor) + "}";
}

/// A machine that is busy may meet the limit of time before that of memory.
void expect_limit(const std::string& schema) {
  const std::string message = refusal(GrammarKind::kJsonSchema, schema);
  EXPECT_TRUE(message == "JSON schema: needs more than 64 MiB of memory" ||
              message == "JSON schema: is not done after 2s")
      << message;
}

TEST(GrammarLimits, WhatExplodesIsRefusedAndOthersGoOn) {
  EXPECT_EQ(refusal(GrammarKind::kJsonSchema, doubled_schema()), "JSON schema: schema too large");
  expect_limit(schema_of_many_states(99999989));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) expect_limit(schema_of_many_states(99999989));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "it is known";
  EXPECT_TRUE(bpe().accepts(GrammarKind::kJsonObject, "", "{}"));
}

TEST(GrammarLimits, RefusedTextsLeaveNothingHoweverManyComeAtOnce) {
  const auto refuse = [](const std::vector<int>& primes) {
    for (const int prime : primes) expect_limit(schema_of_many_states(prime));
  };
  const std::uint64_t before = system::process_memory()->resident_bytes;
  std::thread beside(refuse, std::vector{99999971, 99999959, 99999941, 99999931, 99999847});
  refuse({99999839, 99999827, 99999821, 99999787, 99999773});
  beside.join();
  // They held 640 MiB.
  EXPECT_LT(system::process_memory()->resident_bytes, before + (std::uint64_t{200} << 20));
  EXPECT_TRUE(bpe().accepts(GrammarKind::kRegex, "a+", "aaa"));
}

TEST(GrammarLimits, WhiteSpaceBetweenTokensHasAnEnd) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer"}}})";
  const std::string lark = "start: \"x\" json\njson: %json " + schema;
  const std::string indent(20, ' ');
  for (const std::string& text :
       {std::string(R"({"a":1})"), std::string(R"({ "a" : 1 })"), "{\n" + indent + "\"a\": 1\n}",
        std::string("{\r\n\t\"a\": 1\n}"), std::string("{\"a\":\n1}")}) {
    EXPECT_TRUE(bpe().accepts(GrammarKind::kJsonSchema, schema, text)) << text;
    EXPECT_TRUE(bpe().accepts(GrammarKind::kJsonObject, "", text)) << text;
    EXPECT_TRUE(bpe().accepts(GrammarKind::kLark, lark, "x" + text)) << text;
  }
  for (const std::string& text :
       {std::string("{  \"a\":1}"), "{\n " + indent + "\"a\": 1}", std::string("{\n\n\"a\":1}"),
        std::string("{\t\"a\":1}"), std::string(" {\"a\":1}"), std::string("{\"a\":1}\n\n")}) {
    EXPECT_FALSE(bpe().accepts(GrammarKind::kJsonSchema, schema, text)) << text;
    EXPECT_FALSE(bpe().accepts(GrammarKind::kJsonObject, "", text)) << text;
    EXPECT_FALSE(bpe().accepts(GrammarKind::kLark, lark, "x" + text)) << text;
  }
  const std::string own =
      R"({"x-guidance": {"whitespace_pattern": "  "}, "type": "array", "maxItems": 1})";
  EXPECT_TRUE(bpe().accepts(GrammarKind::kJsonSchema, own, "[  1]"));
  EXPECT_FALSE(bpe().accepts(GrammarKind::kJsonSchema, own, "[ 1]"));
}

}  // namespace
}  // namespace paceline::text
