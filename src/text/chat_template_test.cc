#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/test_vocabulary.h"

namespace paceline::text {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::string rendered(const std::string& source, const std::vector<ChatMessage>& messages = {},
                     const ChatTemplateOptions& options = {}) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message();
  const auto text = parsed->render(messages, options);
  EXPECT_TRUE(text.has_value()) << text.error().message();
  return text.value_or("");
}

std::string error_of(const std::string& source, const ChatTemplateOptions& options = {}) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error().message();
  const auto text = parsed->render({}, options);
  return text ? "no error, but: " + *text : text.error().message();
}

TEST(ChatTemplateTest, TurnsOfAChat) {
  const std::string source =
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const std::vector<ChatMessage> messages = {{"user", "Wer fährt <vorne> & \"hinten\"?"},
                                             {"assistant", "Ich.\n"}};
  const std::string turns =
      "<|im_start|>user\nWer fährt <vorne> & \"hinten\"?<|im_end|>\n"
      "<|im_start|>assistant\nIch.\n<|im_end|>\n";
  EXPECT_EQ(rendered(source, messages), turns + "<|im_start|>assistant\n");
  EXPECT_EQ(rendered(source, messages, {.add_generation_prompt = false}), turns);
}

TEST(ChatTemplateTest, MessagesAsJsonHaveAllThatATemplateAsksFor) {
  const auto messages = nlohmann::ordered_json::parse(
      R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function",
           "function": {"name": "f", "arguments": {"z": 1, "a": "é"}}}]},
          {"role": "tool", "name": "f", "content": "42"}])");
  const std::string source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}"
      "{{ c.function.arguments | tojson }}{% endfor %}{{ m.name }}{{ m.content }}{% endfor %}"
      "{{ tools | length }}{{ enable_thinking }}";
  const ChatTemplateOptions options = {.extra_variables_json =
                                           R"({"tools": [{}], "enable_thinking": false})"};
  const auto text = ChatTemplate::parse(source).value().render_messages(messages, options);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  EXPECT_EQ(*text, R"(f{"z": 1, "a": "é"}f421False)");
}

TEST(ChatTemplateTest, RendersWhatPythonsJinjaRenders) {
  std::size_t errors = 0;
  const nlohmann::ordered_json cases = golden_file("chat_golden.json");
  for (const auto& item : cases) {
    std::vector<ChatMessage> messages;
    for (const auto& message : item["messages"]) {
      messages.push_back({message["role"], message["content"]});
    }
    const ChatTemplateOptions options = {.add_generation_prompt = item["add_generation_prompt"],
                                         .bos_token = "<s>",
                                         .eos_token = "</s>",
                                         .extra_variables_json = item["extra"].dump()};
    const auto text = ChatTemplate::parse(item["source"]).value().render(messages, options);
    if (item.contains("error")) {
      ++errors;
      EXPECT_EQ(text.error().message(), "chat template: " + item["error"].get<std::string>());
    } else {
      EXPECT_EQ(text.value(), item["text"].get<std::string>()) << item["name"];
    }
  }
  EXPECT_GE(cases.size(), 10U);
  EXPECT_EQ(errors, 1U);
}

TEST(ChatTemplateTest, BlocksAreTrimmedAndStripped) {
  const std::string source =
      "{% for message in messages %}\n"
      "    {% if message.role == 'user' %}\n"
      "[{{ message.content }}]\n"
      "    {% endif %}\n"
      "{% endfor %}\n";
  EXPECT_EQ(rendered(source, {{"user", "a"}, {"system", "b"}, {"user", "c"}}), "[a]\n[c]\n");
}

TEST(ChatTemplateTest, VariablesOfTheCaller) {
  const ChatTemplateOptions options = {
      .bos_token = "<s>",
      .eos_token = "</s>",
      .extra_variables_json = R"({"tools": [{"b": 1, "a": "ü<"}], "bos_token": "not this"})"};
  EXPECT_EQ(rendered("{{ bos_token }}{{ tools | tojson }}{{ eos_token }}", {}, options),
            R"(<s>[{"b": 1, "a": "ü<"}]</s>)");
  EXPECT_EQ(rendered("{% if tools is defined and tools %}x{% else %}y{% endif %}"), "y");
}

TEST(ChatTemplateTest, JsonIsSpelledAsPythonDoes) {
  const ChatTemplateOptions options = {
      .extra_variables_json =
          R"({"v": {"n": null, "t": true, "f": 1.5, "l": [1, "é'"], "e": [], "o": {}}})"};
  EXPECT_EQ(rendered("{{ v | tojson }}", {}, options),
            R"({"n": null, "t": true, "f": 1.5, "l": [1, "é'"], "e": [], "o": {}})");
  EXPECT_EQ(
      rendered("{{ v | tojson(indent=2) }}", {}, options),
      "{\n  \"n\": null,\n  \"t\": true,\n  \"f\": 1.5,\n  \"l\": [\n    1,\n    \"é'\"\n  ],\n"
      "  \"e\": [],\n  \"o\": {}\n}");
  EXPECT_EQ(rendered("{{ v.l | tojson(ensure_ascii=False) }}", {}, options), R"([1, "é'"])");
  EXPECT_THAT(error_of("{{ 1 | tojson(indent=1000000000) }}"), HasSubstr("expected 0 to 16"));
}

TEST(ChatTemplateTest, PythonMethodsAndValues) {
  EXPECT_EQ(rendered("{{ ' a '.strip() }}{{ 'x,y'.split(',')[1] }}{{ 'ab'.upper() }}"
                     "{{ 'abc'.startswith('ab') }}{{ none }}{{ messages[-1:][0]['role'] }}",
                     {{"user", "x"}, {"tool", "y"}}),
            "ayABTrueNonetool");
  EXPECT_EQ(rendered("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}"), "a=1");
  EXPECT_EQ(rendered("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
                     "{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ ns.n }}",
                     {{"user", "x"}, {"user", "y"}}),
            "2");
}

TEST(ChatTemplateTest, ARaisedMessageIsTheError) {
  EXPECT_EQ(error_of("{{ raise_exception('Roles must alternate, \"user\" first') }}"),
            "chat template: Roles must alternate, \"user\" first");
  EXPECT_EQ(error_of("{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{{ m() }}"),
            "chat template: deep");
}

TEST(ChatTemplateTest, TheTimeOfNow) {
  EXPECT_THAT(rendered("{{ strftime_now('%d %b %Y') }}"),
              MatchesRegex("[0-9]+ [A-Z]..? ?20[0-9]+"));
  EXPECT_THAT(error_of("{{ strftime_now('%Q') }}"), HasSubstr("strftime_now"));
}

TEST(ChatTemplateTest, BrokenTemplatesAreRefusedWithTheirLine) {
  const auto parsed = ChatTemplate::parse("line one\n{% if %}");
  EXPECT_EQ(parsed.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(parsed.error().message(), StartsWith("chat template: "));
  EXPECT_THAT(parsed.error().message(), HasSubstr(":2)"));
  EXPECT_THAT(error_of("{% for x in y %}"), StartsWith("chat template: "));
  EXPECT_THAT(error_of("\xFF"), HasSubstr("is not UTF-8 at byte 0"));
  EXPECT_THAT(error_of("{{ missing.member.other }}"), HasSubstr("undefined"));
  EXPECT_THAT(error_of("{{ missing_function() }}"), HasSubstr("missing_function"));
  EXPECT_THAT(error_of("{% include 'other' %}"), StartsWith("chat template: "));
}

TEST(ChatTemplateTest, EndlessTemplatesAreRefused) {
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("recursion"));
  EXPECT_THAT(
      error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
      HasSubstr("fuel"));
  EXPECT_THAT(error_of("{{ " + std::string(100000, '(') + "1 }}"), StartsWith("chat template: "));
}

TEST(ChatTemplateTest, ExtraVariablesMustBeAJsonObject) {
  for (const std::string& extra : {std::string("[1]"), std::string("{"), std::string("{} {}"),
                                   "{\"a\": " + std::string(100000, '[') + "}"}) {
    EXPECT_THAT(error_of("x", {.extra_variables_json = extra}),
                StartsWith("chat template: extra variables: expected a JSON object: "));
  }
}

TEST(ChatTemplateTest, MessagesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(rendered("{{ messages[0].content }}", {{"user", "a\xFFz"}}), "a\uFFFDz");
}

TEST(ChatTemplateTest, MemoryIsBoundedAndWhatMetTheBoundIsNotRenderedAgain) {
  const auto hostile = ChatTemplate::parse(
      "{% set n = namespace(s='x') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}"
      "{{ n.s | length }}");
  ASSERT_TRUE(hostile.has_value()) << hostile.error().message();
  const std::vector<ChatMessage> messages = {{"user", "Hello"}};
  const auto first = hostile->render(messages, {});
  ASSERT_FALSE(first.has_value());
  EXPECT_EQ(first.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(first.error().message(), testing::HasSubstr("needs more than 256 MiB of memory"));
  EXPECT_THAT(hostile->render(messages, {}).error().message(),
              testing::HasSubstr("was refused before"));
  const auto harmless = ChatTemplate::parse("{{ messages[0].content }}").value();
  EXPECT_EQ(harmless.render(messages, {}).value(), "Hello");
}

}  // namespace
}  // namespace paceline::text
