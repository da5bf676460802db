#include "api/tool_choice.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::HasSubstr;

constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "f"}},
                 {"type": "function", "function": {"name": "g", "strict": false}}])";
constexpr const char* kStrict =
    R"("tools": [{"type": "function", "function": {"name": "f"}},
                 {"type": "function", "function": {"name": "g", "strict": true}}])";

Parsed<ChatRequest> asked(const std::string& rest, const char* tools = kTools) {
  return parse_chat_request(R"({"messages": [{"role": "user", "content": "Hi"}], )" +
                            std::string(tools) + (rest.empty() ? "" : ", ") + rest + "}");
}

ChatRequest parsed(const std::string& rest, const char* tools = kTools) {
  auto request = asked(rest, tools);
  EXPECT_TRUE(request.has_value()) << rest << ": " << request.error().message;
  return request.value_or(ChatRequest());
}

void expect_refused(const std::string& rest, const std::string& param, const std::string& message,
                    const char* tools = kTools) {
  const auto request = asked(rest, tools);
  ASSERT_FALSE(request.has_value()) << rest;
  EXPECT_EQ(request.error().param, param) << rest;
  EXPECT_THAT(request.error().message, HasSubstr(message)) << rest;
}

TEST(ToolChoiceTest, AutoIsWhatIsTakenWithTools) {
  for (const char* rest : {"", R"("tool_choice": "auto")", R"("tool_choice": null)"}) {
    const ChatRequest request = parsed(rest);
    EXPECT_TRUE(request.parses_tool_calls && request.parallel_tool_calls) << rest;
    EXPECT_FALSE(request.must_call || request.has_strict_tools) << rest;
    EXPECT_FALSE(needs_call_grammar(request)) << rest;
  }
}

TEST(ToolChoiceTest, NoneTakesTheToolsAway) {
  const ChatRequest request = parsed(R"("tool_choice": "none")", kStrict);
  EXPECT_TRUE(request.prompt.tools.empty());
  EXPECT_FALSE(request.parses_tool_calls || request.has_strict_tools);
  EXPECT_FALSE(needs_call_grammar(request));
}

TEST(ToolChoiceTest, ACallIsAskedFor) {
  const ChatRequest any = parsed(R"("tool_choice": "required", "parallel_tool_calls": false)");
  EXPECT_TRUE(any.must_call && any.named_tool.empty() && !any.parallel_tool_calls);
  EXPECT_TRUE(needs_call_grammar(any));
  const ChatRequest named =
      parsed(R"("tool_choice": {"type": "function", "function": {"name": "g"}})");
  EXPECT_TRUE(named.must_call && needs_call_grammar(named));
  EXPECT_EQ(named.named_tool, "g");
}

TEST(ToolChoiceTest, StrictToolsAndOtherFormsNeedAGrammar) {
  EXPECT_TRUE(needs_call_grammar(parsed("", kStrict)));
  EXPECT_TRUE(parsed("", kStrict).has_strict_tools);
  EXPECT_TRUE(needs_call_grammar(parsed(R"("response_format": {"type": "json_object"})")));
}

TEST(ToolChoiceTest, WhatIsNoneIsRefused) {
  expect_refused(R"("tool_choice": "maybe")", "tool_choice", "expected none, auto, required");
  expect_refused(R"("tool_choice": 1)", "tool_choice", "expected none, auto, required");
  expect_refused(R"("tool_choice": {})", "tool_choice.type", "missing");
  expect_refused(R"("tool_choice": {"type": "allowed_tools"})", "tool_choice.type",
                 "only function");
  expect_refused(R"("tool_choice": {"type": "function"})", "tool_choice.function", "missing");
  expect_refused(R"("tool_choice": {"type": "function", "function": {}})",
                 "tool_choice.function.name", "missing");
  expect_refused(R"("tool_choice": {"type": "function", "function": {"name": "h"}})",
                 "tool_choice.function.name", "none of the tools");
  expect_refused(R"("parallel_tool_calls": "no")", "parallel_tool_calls", "true or false");
  const auto without = parse_chat_request(
      R"({"messages": [{"role": "user", "content": "Hi"}], "tool_choice": "auto"})");
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().param, "tool_choice");
}

TEST(ToolChoiceTest, WhatLeavesNoEndIsRefused) {
  const std::string required = R"("tool_choice": "required", )";
  expect_refused(required + R"("min_tokens": 3)", "min_tokens", "excludes tool_choice");
  expect_refused(required + R"("ignore_eos": true)", "ignore_eos", "excludes tool_choice");
  expect_refused(R"("ignore_eos": true)", "ignore_eos", "strict", kStrict);
  EXPECT_TRUE(asked(R"("ignore_eos": true, "min_tokens": 3)"));
}

}  // namespace
}  // namespace paceline::api
