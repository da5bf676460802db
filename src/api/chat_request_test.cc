#include "api/chat_request.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::HasSubstr;

ChatRequest parsed(const std::string& body) {
  const auto request = parse_chat_request(body);
  EXPECT_TRUE(request.has_value()) << request.error().message << "\n" << body;
  return request.value_or(ChatRequest());
}

/// `rest`: more members.
std::string with_hello(const std::string& rest = "") {
  return R"({"messages": [{"role": "user", "content": "hello"}])" +
         (rest.empty() ? "" : ", " + rest) + "}";
}
std::string with_messages(const std::string& messages) {
  return R"({"messages": )" + messages + "}";
}

void expect_refused(const std::string& body, const std::string& param,
                    const std::string& message = "") {
  const auto request = parse_chat_request(body);
  ASSERT_FALSE(request.has_value()) << body;
  EXPECT_EQ(request.error().status, 400) << body;
  EXPECT_EQ(request.error().param, param) << body;
  EXPECT_THAT(request.error().message, HasSubstr(message)) << body;
}

TEST(ChatRequestTest, MessagesComeInTheFormOfTemplates) {
  const auto request = parsed(with_messages(R"([
    {"role": "developer", "content": "be short"},
    {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"},
                                               {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": [2]}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "done", "reasoning_content": "because"}])"));
  EXPECT_EQ(request.prompt.messages.dump(),
            R"([{"role":"system","content":"be short"},)"
            R"({"role":"user","content":"a\nb","name":"ann"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
            R"("function":{"name":"f","arguments":{"z":1,"a":[2]}}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"},)"
            R"({"role":"assistant","content":"done","reasoning_content":"because"}])");
  EXPECT_TRUE(request.prompt.add_generation_prompt);
}

TEST(ChatRequestTest, ArgumentsThatAreNoObjectStayText) {
  const auto request = parsed(with_messages(R"([{"role": "assistant", "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": "{broken"}},
    {"type": "function", "function": {"name": "g", "arguments": ""}}]}])"));
  const Json& calls = request.prompt.messages[0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"], "{broken");
  EXPECT_EQ(calls[1]["function"]["arguments"], Json::object());
}

TEST(ChatRequestTest, MessagesThatAreNoneAreRefused) {
  expect_refused("{}", "messages", "missing");
  expect_refused(with_messages("[]"), "messages", "at least one");
  expect_refused(with_messages("\"hello\""), "messages", "got \"hello\"");
  expect_refused(with_messages("[1]"), "messages", "messages[0]");
  expect_refused(with_messages(R"([{"content": "x"}])"), "messages[0].role", "missing");
  expect_refused(with_messages(R"([{"role": "user", "content": "x"}, {"role": "king"}])"),
                 "messages[1].role", "one of system");
  expect_refused(with_messages(R"([{"role": "user"}])"), "messages[0].content", "missing");
  expect_refused(with_messages(R"([{"role": "user", "content": null}])"), "messages[0].content");
  expect_refused(with_messages(R"([{"role": "user", "content": 5}])"), "messages[0].content");
  expect_refused(with_messages(R"([{"role": "user", "content": []}])"), "messages[0].content");
  expect_refused(with_messages(R"([{"role": "assistant"}])"), "messages[0].content");
  expect_refused(with_messages(R"([{"role": "tool", "content": "x"}])"),
                 "messages[0].tool_call_id");
  expect_refused(with_messages(R"([{"role": "user", "content": "x", "name": 5}])"),
                 "messages[0].name");
}

TEST(ChatRequestTest, PartsOtherThanTextAreRefusedByName) {
  const auto part = [](const std::string& part) {
    return with_messages(R"([{"role": "user", "content": [)" + part + "]}]");
  };
  expect_refused(part(R"({"type": "image_url", "image_url": {"url": "x"}})"),
                 "messages[0].content[0].type", "image_url is not offered");
  expect_refused(part(R"({"type": "text"})"), "messages[0].content[0].text", "missing");
  expect_refused(part(R"({"type": "text", "text": 5})"), "messages[0].content[0].text");
  expect_refused(part(R"({"text": "x"})"), "messages[0].content[0].type", "missing");
  expect_refused(part(R"("x")"), "messages[0].content");
  expect_refused(part(R"({"type": "song"})"), "messages[0].content[0].type");
}

TEST(ChatRequestTest, Logprobs) {
  EXPECT_FALSE(parsed(with_hello()).generation.logprobs);
  EXPECT_EQ(parsed(with_hello(R"("logprobs": true)")).generation.logprobs, 0U);
  EXPECT_EQ(parsed(with_hello(R"("logprobs": true, "top_logprobs": 20)")).generation.logprobs, 20U);
  expect_refused(with_hello(R"("top_logprobs": 2)"), "top_logprobs", "needs logprobs");
  expect_refused(with_hello(R"("logprobs": false, "top_logprobs": 2)"), "top_logprobs");
  expect_refused(with_hello(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs", "0 to 20");
  expect_refused(with_hello(R"("logprobs": 5)"), "logprobs", "true or false");
}

constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"z": {}, "a": {}}}}])";

TEST(ChatRequestTest, ToolsAndWhetherTheyMayBeCalled) {
  const std::string tools = kTools;
  EXPECT_TRUE(parsed(with_hello(tools)).parses_tool_calls);
  EXPECT_EQ(parsed(with_hello(tools)).prompt.tools[0]["function"]["parameters"].dump(),
            R"({"z":{},"a":{}})")
      << "in the client's order";
  EXPECT_TRUE(parsed(with_hello(tools + R"(, "tool_choice": "auto")")).parses_tool_calls);
  const auto none = parsed(with_hello(tools + R"(, "tool_choice": "none")"));
  EXPECT_FALSE(none.parses_tool_calls);
  EXPECT_TRUE(none.prompt.tools.empty());
  EXPECT_FALSE(parsed(with_hello()).parses_tool_calls);
  EXPECT_FALSE(parsed(with_hello(tools + R"(, "parallel_tool_calls": false)")).parallel_tool_calls);
  expect_refused(with_hello(R"("tools": [{"type": "function"}])"), "tools[0].function", "missing");
  expect_refused(with_hello(R"("tools": [{"type": "custom"}])"), "tools[0].type");
  expect_refused(with_hello(R"("tools": [{"type": "function", "function": {"name": "a b"}}])"),
                 "tools[0].function.name");
  expect_refused(with_hello(R"("tools": [{"type": "function", "function": {"name": "a",
                 "strict": "yes"}}])"),
                 "tools[0].function.strict");
  expect_refused(with_hello(R"("tools": 5)"), "tools");
}

TEST(ChatRequestTest, WhatTheTemplateIsTold) {
  const auto request = parsed(with_hello(
      R"("chat_template_kwargs": {"x": 1}, "reasoning_effort": "none", "add_special_tokens": true)"));
  EXPECT_EQ(request.prompt.variables.dump(),
            R"({"x":1,"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_TRUE(request.prompt.add_special_tokens);
  expect_refused(with_hello(R"("reasoning_effort": "huge")"), "reasoning_effort");
  expect_refused(with_hello(R"("chat_template_kwargs": [])"), "chat_template_kwargs");
}

TEST(ChatRequestTest, TheLastMessageCanBeContinued) {
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])";
  const auto request = parsed(messages + R"(, "continue_final_message": true})");
  EXPECT_TRUE(request.prompt.continue_final_message);
  EXPECT_FALSE(request.prompt.add_generation_prompt);
  expect_refused(with_hello(R"("continue_final_message": true)"), "continue_final_message");
  expect_refused(messages + R"(, "continue_final_message": true, "add_generation_prompt": true})",
                 "continue_final_message", "excludes");
  expect_refused(R"({"messages": [], "continue_final_message": true})", "messages");
}

TEST(ChatRequestTest, OnlyTextIsOffered) {
  parsed(with_hello(R"("modalities": ["text"], "response_format": {"type": "text"},
                       "verbosity": "medium")"));
  expect_refused(with_hello(R"("modalities": ["text", "audio"])"), "modalities");
  expect_refused(with_hello(R"("response_format": {"type": "xml"})"), "response_format.type");
  expect_refused(with_hello(R"("response_format": {})"), "response_format.type", "missing");
  expect_refused(with_hello(R"("verbosity": "low")"), "verbosity");
  expect_refused(with_hello(R"("echo": true)"), "echo");
  expect_refused(with_hello(R"("max_tokens": 0)"), "max_tokens");
}

}  // namespace
}  // namespace paceline::api
