#include "api/response_request.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::HasSubstr;

ResponseRequest parsed(const std::string& body) {
  const auto request = parse_response_request(body);
  EXPECT_TRUE(request.has_value()) << request.error().message << "\n" << body;
  return request.value_or(ResponseRequest());
}
std::string with_hello(const std::string& rest = "") {
  return R"({"input": "hello")" + (rest.empty() ? "" : ", " + rest) + "}";
}
std::string with_items(const std::string& items) { return R"({"input": [)" + items + "]}"; }

void expect_refused(const std::string& body, const std::string& param,
                    const std::string& message = "") {
  const auto request = parse_response_request(body);
  ASSERT_FALSE(request.has_value()) << body;
  EXPECT_EQ(request.error().status, 400) << body;
  EXPECT_EQ(request.error().param, param) << body;
  EXPECT_THAT(request.error().message, HasSubstr(message)) << body;
}

TEST(ResponseRequestTest, TextIsTheUsersMessageBehindTheInstructions) {
  EXPECT_EQ(parsed(with_hello(R"("instructions": "be short")")).chat.prompt.messages.dump(),
            R"([{"role":"system","content":"be short"},{"role":"user","content":"hello"}])");
  EXPECT_EQ(parsed(with_hello()).chat.prompt.messages.size(), 1U);
}

TEST(ResponseRequestTest, ItemsOfOneTurnMakeOneMessage) {
  const auto request = parsed(with_items(R"(
    {"role": "developer", "content": "be short"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
                                                   {"type": "input_text", "text": "b"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [],
     "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"z\": 1}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "42"},
    {"type": "function_call_output", "call_id": "c2",
     "output": [{"type": "input_text", "text": "43"}]})"));
  EXPECT_EQ(request.chat.prompt.messages.dump(),
            R"([{"role":"system","content":"be short"},{"role":"user","content":"a\nb"},)"
            R"({"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"z":1}}},)"
            R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"},)"
            R"({"role":"tool","content":"43","tool_call_id":"c2"}])");
}

TEST(ResponseRequestTest, TwoMessagesOfTheAssistantStayTwo) {
  const auto request = parsed(with_items(R"({"role": "assistant", "content": "a"},
                                            {"role": "assistant", "content": "b"})"));
  EXPECT_EQ(request.chat.prompt.messages.size(), 2U);
}

TEST(ResponseRequestTest, InputThatIsNoneIsRefused) {
  expect_refused("{}", "input", "missing");
  expect_refused(R"({"input": []})", "input", "1 to");
  expect_refused(R"({"input": 5})", "input");
  expect_refused(with_items("1"), "input", "input[0]");
  expect_refused(with_items(R"({"content": "x"})"), "input[0].role", "missing");
  expect_refused(with_items(R"({"role": "king", "content": "x"})"), "input[0].role");
  expect_refused(with_items(R"({"role": "user"})"), "input[0].content", "missing");
  expect_refused(with_items(R"({"role": "user", "content": [5]})"), "input[0].content");
  expect_refused(with_items(R"({"role": "user", "content": [{"type": "input_image"}]})"),
                 "input[0].content[0].type", "input_image is not offered");
  expect_refused(with_items(R"({"role": "user", "content": [{"type": "song"}]})"),
                 "input[0].content[0].type");
  expect_refused(with_items(R"({"type": "item_reference", "id": "x"})"), "input[0].type",
                 "item_reference is not offered");
  expect_refused(with_items(R"({"type": "function_call", "name": "f", "arguments": "{}"})"),
                 "input[0].call_id", "missing");
  expect_refused(with_items(R"({"type": "function_call_output", "call_id": "c"})"),
                 "input[0].output", "missing");
  expect_refused(with_items(R"({"type": "reasoning", "summary": []})"), "input", "alone");
}

TEST(ResponseRequestTest, WhatNeedsAStoreIsRefusedByName) {
  expect_refused(with_hello(R"("previous_response_id": "resp_1")"), "previous_response_id",
                 "not stored");
  expect_refused(with_hello(R"("conversation": "conv_1")"), "conversation", "not stored");
  expect_refused(with_hello(R"("background": true)"), "background");
  expect_refused(with_hello(R"("prompt": {"id": "x"})"), "prompt");
  expect_refused(with_hello(R"("truncation": "auto")"), "truncation");
  expect_refused(with_hello(R"("max_tokens": 5)"), "max_tokens", "max_output_tokens");
  expect_refused(with_hello(R"("n": 2)"), "n");
  parsed(with_hello(R"("previous_response_id": null, "background": false, "store": false,
                       "truncation": "disabled")"));
}

TEST(ResponseRequestTest, Limits) {
  const auto request = parsed(
      with_hello(R"("max_output_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stream": true)"));
  EXPECT_EQ(request.chat.generation.max_tokens, 7U);
  EXPECT_STREQ(request.chat.generation.limit_field, "max_output_tokens");
  EXPECT_EQ(request.chat.generation.temperature, 0.5);
  EXPECT_TRUE(request.chat.generation.stream);
  EXPECT_EQ(request.shown["max_output_tokens"], 7);
  expect_refused(with_hello(R"("max_output_tokens": 0)"), "max_output_tokens");
  expect_refused(with_hello(R"("temperature": 3)"), "temperature");
}

TEST(ResponseRequestTest, ToolsBecomeThoseOfAChat) {
  const std::string tools =
      R"("tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"z": 1},
                    "strict": false}])";
  const auto request = parsed(with_hello(tools));
  EXPECT_EQ(
      request.chat.prompt.tools.dump(),
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"z":1}}}])");
  EXPECT_TRUE(request.chat.parses_tool_calls);
  EXPECT_EQ(request.shown["tools"][0]["name"], "f");
  const auto none = parsed(with_hello(tools + R"(, "tool_choice": "none")"));
  EXPECT_FALSE(none.chat.parses_tool_calls);
  EXPECT_TRUE(none.chat.prompt.tools.empty());
  const auto named =
      parsed(with_hello(tools + R"(, "tool_choice": {"type": "function", "name": "f"},
                 "parallel_tool_calls": false)"));
  EXPECT_TRUE(named.chat.must_call);
  EXPECT_EQ(named.chat.named_tool, "f");
  EXPECT_EQ(named.shown["tool_choice"]["name"], "f");
  EXPECT_EQ(named.shown["parallel_tool_calls"], false);
  expect_refused(with_hello(R"("tools": [{"type": "web_search"}])"), "tools[0].type");
  expect_refused(with_hello(R"("tools": [{"type": "function"}])"), "tools[0].name", "missing");
  const auto strict =
      parsed(with_hello(R"("tools": [{"type": "function", "name": "f", "strict": true}])"));
  EXPECT_TRUE(strict.chat.has_strict_tools);
  EXPECT_EQ(strict.chat.prompt.tools[0]["function"]["strict"], true);
  EXPECT_EQ(strict.shown["tools"][0]["strict"], true);
  expect_refused(with_hello(R"("tools": [{"type": "function", "name": "f", "strict": 1}])"),
                 "tools[0].strict");
}

TEST(ResponseRequestTest, TheFormOfTheText) {
  const auto object = parsed(with_hello(R"("text": {"format": {"type": "json_object"}})"));
  ASSERT_TRUE(object.chat.generation.grammar);
  EXPECT_EQ(object.chat.generation.grammar->spec, GrammarSpec());
  EXPECT_EQ(object.shown["text"]["format"]["type"], "json_object");
  const auto schema = parsed(with_hello(R"("text": {"format": {"type": "json_schema", "name": "n",
                                           "strict": true, "schema": {"z": 1}}})"));
  ASSERT_TRUE(schema.chat.generation.grammar);
  EXPECT_EQ(schema.chat.generation.grammar->spec,
            (GrammarSpec{GrammarKind::kJsonSchema, R"({"z":1})"}));
  EXPECT_EQ(schema.chat.generation.grammar->field, "text.format.schema");
  EXPECT_EQ(schema.shown["text"]["format"]["name"], "n");
  const std::string json = R"("text": {"format": {"type": "json_object"}}, )";
  expect_refused(with_hello(R"("text": {"format": {"type": "xml"}})"), "text.format.type");
  expect_refused(with_hello(R"("text": {"format": {"type": "json_schema", "name": "n"}})"),
                 "text.format.schema", "missing");
  expect_refused(with_hello(R"("text": {"format": {"type": "json_schema", "schema": {}}})"),
                 "text.format.name", "missing");
  expect_refused(with_hello(json + R"("ignore_eos": true)"), "ignore_eos", "excludes text.format");
  expect_refused(with_hello(json + R"("structured_outputs": {"regex": "a"})"), "structured_outputs",
                 "excludes text.format");
}

TEST(ResponseRequestTest, ReasoningTextAndLogprobs) {
  const auto request = parsed(with_hello(
      R"("reasoning": {"effort": "none", "summary": "auto"}, "top_logprobs": 2,
         "text": {"format": {"type": "text"}},
         "include": ["reasoning.encrypted_content", "message.output_text.logprobs"])"));
  EXPECT_EQ(request.chat.prompt.variables.dump(),
            R"({"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_EQ(request.chat.generation.logprobs, 2U);
  EXPECT_FALSE(parsed(with_hello()).chat.generation.logprobs);
  expect_refused(with_hello(R"("reasoning": {"effort": "huge"})"), "reasoning.effort");
  expect_refused(with_hello(R"("reasoning": {"summary": "detailed"})"), "reasoning.summary");
  expect_refused(with_hello(R"("text": {"verbosity": "low"})"), "text.verbosity");
  expect_refused(with_hello(R"("include": ["file_search_call.results"])"), "include");
  expect_refused(with_hello(R"("top_logprobs": 21)"), "top_logprobs");
}

}  // namespace
}  // namespace paceline::api
