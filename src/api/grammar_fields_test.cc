#include "api/grammar_fields.h"

#include <gmock/gmock.h>

#include "api/chat_request.h"
#include "api/completion_request.h"

namespace paceline::api {
namespace {

using testing::HasSubstr;

std::string with(const std::string& rest) {
  return R"({"messages": [{"role": "user", "content": "hello"}], "prompt": "hello", )" + rest + "}";
}

std::optional<AskedGrammar> asked(const std::string& rest) {
  const auto chat = parse_chat_request(with(rest));
  EXPECT_TRUE(chat.has_value()) << chat.error().message << "\n" << rest;
  const auto completion = parse_completion_request(with(rest));
  EXPECT_TRUE(completion.has_value()) << completion.error().message << "\n" << rest;
  if (!chat || !completion) return std::nullopt;
  EXPECT_EQ(chat->generation.grammar.has_value(), completion->generation.grammar.has_value());
  return chat->generation.grammar;
}

void expect_asked(const std::string& rest, GrammarKind kind, const std::string& text,
                  const std::string& field) {
  const auto grammar = asked(rest);
  ASSERT_TRUE(grammar.has_value()) << rest;
  EXPECT_EQ(grammar->spec.kind, kind) << rest;
  EXPECT_EQ(grammar->spec.text, text) << rest;
  EXPECT_EQ(grammar->field, field) << rest;
}

void expect_refused(const std::string& rest, const std::string& param, const std::string& message,
                    const std::string& code = "") {
  const auto request = parse_chat_request(with(rest));
  ASSERT_FALSE(request.has_value()) << rest;
  EXPECT_EQ(request.error().status, 400) << rest;
  EXPECT_EQ(request.error().param, param) << rest;
  EXPECT_TRUE(code.empty() || request.error().code == code) << rest;
  EXPECT_THAT(request.error().message, HasSubstr(message)) << rest;
}

TEST(GrammarFieldsTest, ResponseFormats) {
  EXPECT_FALSE(asked(R"("response_format": {"type": "text"})"));
  EXPECT_FALSE(asked(R"("response_format": null)"));
  expect_asked(R"("response_format": {"type": "json_object"})", GrammarKind::kJsonObject, "",
               "response_format");
  // The order of members is the order in the answer.
  expect_asked(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
               "strict": true, "schema": {"z": 1, "a": {}}}})",
               GrammarKind::kJsonSchema, R"({"z":1,"a":{}})", "response_format.json_schema.schema");
}

TEST(GrammarFieldsTest, StructuredOutputs) {
  EXPECT_FALSE(asked(R"("structured_outputs": {})"));
  EXPECT_FALSE(asked(R"("structured_outputs": {"json": null, "json_object": false})"));
  expect_asked(R"("structured_outputs": {"json": {"type": "null"}})", GrammarKind::kJsonSchema,
               R"({"type":"null"})", "structured_outputs.json");
  expect_asked(R"("structured_outputs": {"json": "{}"})", GrammarKind::kJsonSchema, "{}",
               "structured_outputs.json");
  expect_asked(R"("structured_outputs": {"regex": "a+"})", GrammarKind::kRegex, "a+",
               "structured_outputs.regex");
  expect_asked(R"("structured_outputs": {"grammar": "start: \"a\""})", GrammarKind::kLark,
               "start: \"a\"", "structured_outputs.grammar");
  expect_asked(R"("structured_outputs": {"choice": ["yes", "\"no\"\n"]})", GrammarKind::kLark,
               R"(start: "yes" | "\"no\"\n")", "structured_outputs.choice");
  // What Lark's strings may not hold is spelled by its number.
  expect_asked(R"("structured_outputs": {"choice": ["\u007f\u00e9"]})", GrammarKind::kLark,
               R"(start: "\u007f\u00e9")", "structured_outputs.choice");
  expect_asked(R"("structured_outputs": {"json_object": true})", GrammarKind::kJsonObject, "",
               "structured_outputs.json_object");
}

TEST(GrammarFieldsTest, WhatIsNoneIsRefused) {
  expect_refused(R"("response_format": {"type": "xml"})", "response_format.type", "one of");
  expect_refused(R"("response_format": {})", "response_format.type", "missing");
  expect_refused(R"("response_format": {"type": "json_schema"})", "response_format.json_schema",
                 "missing");
  expect_refused(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})",
                 "response_format.json_schema.schema", "missing");
  expect_refused(R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}})",
                 "response_format.json_schema.name", "missing");
  expect_refused(R"("structured_outputs": "json")", "structured_outputs", "");
  expect_refused(R"("structured_outputs": {"json": 5})", "structured_outputs.json", "schema");
  expect_refused(R"("structured_outputs": {"regex": ""})", "structured_outputs.regex", "empty");
  expect_refused(R"("structured_outputs": {"choice": []})", "structured_outputs.choice", "least");
  expect_refused(R"("structured_outputs": {"choice": ["a", ""]})", "structured_outputs.choice",
                 "empty");
  expect_refused(R"("structured_outputs": {"regex": "a", "choice": ["b"]})",
                 "structured_outputs.choice", "excludes structured_outputs.regex");
  expect_refused(R"("structured_outputs": {"regex": "a"}, "response_format": {"type":
                 "json_object"})",
                 "structured_outputs", "excludes response_format");
  expect_refused(R"("structured_outputs": {"structural_tag": "x"})",
                 "structured_outputs.structural_tag", "not offered", "unsupported_parameter");
  expect_refused(R"("structured_outputs": {"regex": ")" + std::string(70'000, 'a') + "\"}",
                 "structured_outputs.regex", "at most 65536 bytes, got 70000");
}

TEST(GrammarFieldsTest, WhatLeavesNoEndIsRefused) {
  const std::string json = R"("response_format": {"type": "json_object"}, )";
  expect_refused(json + R"("min_tokens": 5)", "min_tokens", "excludes response_format");
  expect_refused(json + R"("ignore_eos": true)", "ignore_eos", "excludes response_format");
  EXPECT_TRUE(asked(json + R"("max_tokens": 5)"));
}

}  // namespace
}  // namespace paceline::api
