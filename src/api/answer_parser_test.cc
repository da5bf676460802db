#include "api/answer_parser.h"

#include <gtest/gtest.h>

namespace paceline::api {
namespace {

AnswerDelta parsed(const AnswerParserOptions& options, const std::vector<std::string>& pieces) {
  AnswerParser parser(options);
  AnswerDelta whole;
  for (const std::string& piece : pieces) whole.append(parser.push(piece));
  whole.append(parser.finish());
  EXPECT_EQ(parser.has_tool_calls(), !whole.tool_calls.empty());
  return whole;
}

/// The same however the text is divided: whole, at each place in two, byte by byte.
void expect(const AnswerParserOptions& options, const std::string& text,
            const AnswerDelta& expected) {
  EXPECT_EQ(parsed(options, {text}), expected) << text;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(parsed(options, {text.substr(0, at), text.substr(at)}), expected)
        << text.substr(0, at) << "|" << text.substr(at);
  }
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  EXPECT_EQ(parsed(options, bytes), expected) << text;
}

AnswerParserOptions with(ToolFormat format) {
  AnswerParserOptions options;
  options.tools = format;
  options.tool_names = {"get_weather", "f"};
  options.call_id = "call_";
  return options;
}

AnswerDelta content(const std::string& text) { return {text, "", {}}; }

const std::vector<ToolCallDelta> kWeather = {
    {0, "call_00", "get_weather", R"({"city": "Par{is}\"", "days": [1, 2]})"}};
const std::vector<ToolCallDelta> kTwo = {{0, "call_00", "get_weather", R"({"city": "Paris"})"},
                                         {1, "call_01", "f", "{}"}};

TEST(AnswerParserTest, PlainTextStaysAsItIs) {
  for (const char* text : {"", "hello", " <thin", "  \n", "a <think>b</think>", "1 < 2", "\n x "}) {
    expect({}, text, content(text));
  }
}

TEST(AnswerParserTest, ReasoningIsSeparated) {
  expect({}, "<think>\nhm, 1 < 2\n</think>\n\nyes", {"yes", "hm, 1 < 2", {}});
  expect({}, "\n<think>a\n\nb </th ink></think>c", {"c", "a\n\nb </th ink>", {}});
  expect({}, "<think></think>c", {"c", "", {}});
  expect({}, "<think>cut off", {"", "cut off", {}});
  AnswerParserOptions inside;
  inside.begins_in_reasoning = true;
  expect(inside, "hm</think>yes <think>", {"yes <think>", "hm", {}});
  AnswerParserOptions off;
  off.separates_reasoning = false;
  expect(off, "<think>a</think>b", content("<think>a</think>b"));
}

TEST(AnswerParserTest, Hermes) {
  const auto options = with(ToolFormat::kHermes);
  expect(options,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
         "{\"city\": \"Par{is}\\\"\", \"days\": [1, 2]}}\n</tool_call>",
         {"", "", kWeather});
  expect(options,
         "<think>so</think>Let me see.\n<tool_call>{\"arguments\": {\"city\": \"Paris\"}, "
         "\"name\": \"get_weather\"}</tool_call>\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
         {"Let me see.", "so", kTwo});
  expect(options, "a <tool_call and <b>", content("a <tool_call and <b>"));
  expect(options, "<tool_call>no call", content("no call"));
  expect(options, R"(<tool_call>{"name": "f", "argu)", content(R"({"name": "f", "argu)"));
  expect(options, R"(<tool_call>{"x": 1}</tool_call>)", content(R"({"x": 1})"));
  expect(options, R"(<tool_call>{"name": "f", "arguments": {"a": )",
         {"", "", {{0, "call_00", "f", R"({"a": )"}}});
  expect(options, R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>done)",
         {"done", "", {{0, "call_00", "f", R"({"a": 1})"}}});
}

TEST(AnswerParserTest, Llama) {
  const auto options = with(ToolFormat::kLlama);
  const std::string call =
      R"({"name": "get_weather", "parameters": {"city": "Par{is}\"", "days": [1, 2]}})";
  expect(options, call, {"", "", kWeather});
  expect(options, "<|python_tag|>" + call, {"", "", kWeather});
  expect(options,
         R"({"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}; )"
         R"({"name": "f", "parameters": {}})",
         {"", "", kTwo});
  const std::string own = R"({"name": "Bob", "parameters": {"a": 1}} is an object)";
  expect(options, own, content(own));
  expect(options, R"({"a": {"name": 1}} x)", content(R"({"a": {"name": 1}} x)"));
  expect(options, "a {\"name\": \"f\"}", content("a {\"name\": \"f\"}"));
}

TEST(AnswerParserTest, Mistral) {
  const auto options = with(ToolFormat::kMistral);
  expect(options,
         R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}, )"
         R"({"name": "f", "arguments": {}}])",
         {"", "", kTwo});
  expect(options, R"(Hm.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]f{})",
         {"Hm.", "", kTwo});
  expect(options, "[TOOL_CALLS]just words", content("just words"));
  expect(options, "[TOOL] x", content("[TOOL] x"));
}

TEST(AnswerParserTest, Phi) {
  expect(with(ToolFormat::kPhi),
         R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}},)"
         R"({"name": "f", "arguments": {}}]<|/tool_call|>)",
         {"", "", kTwo});
}

TEST(AnswerParserTest, OneCallWhereNotSeveralAreAsked) {
  auto options = with(ToolFormat::kHermes);
  options.parallel_tool_calls = false;
  expect(options,
         R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)"
         R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>)",
         {"", "", {{0, "call_00", "f", "{}"}}});
}

TEST(AnswerParserTest, ArgumentsComeAsTheyAreWritten) {
  AnswerParser parser(with(ToolFormat::kHermes));
  EXPECT_TRUE(parser.push(R"(<tool_call>{"name": "f")").empty());
  EXPECT_EQ(parser.push(R"(, "arguments": {"a)").tool_calls,
            (std::vector<ToolCallDelta>{{0, "call_00", "f", R"({"a)"}}));
  EXPECT_EQ(parser.push(R"(": 1)").tool_calls,
            (std::vector<ToolCallDelta>{{0, "", "", R"(": 1)"}}));
}

TEST(AnswerParserTest, FormatsByTheTemplate) {
  EXPECT_EQ(tool_format_of("... <tool_call> ..."), ToolFormat::kHermes);
  EXPECT_EQ(tool_format_of("{{ '[TOOL_CALLS]' }}"), ToolFormat::kMistral);
  EXPECT_EQ(tool_format_of("<|tool_call|>"), ToolFormat::kPhi);
  EXPECT_EQ(tool_format_of("<|start_header_id|> \"parameters\""), ToolFormat::kLlama);
  EXPECT_EQ(tool_format_of("plain"), ToolFormat::kHermes);
  EXPECT_TRUE(has_special_marks(ToolFormat::kMistral));
  EXPECT_FALSE(has_special_marks(ToolFormat::kHermes));
}

}  // namespace
}  // namespace paceline::api
