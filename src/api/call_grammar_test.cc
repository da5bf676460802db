#include "api/call_grammar.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Json tools() {
  return Json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
                                      "properties": {"z": {"$ref": "#/$defs/y"}}}}},
    {"type": "function", "function": {"name": "g"}}])");
}

std::optional<std::int64_t> no_special(std::string_view /*text*/) { return std::nullopt; }
std::optional<std::int64_t> all_special(std::string_view text) {
  return static_cast<std::int64_t>(text.size());
}

std::string text_of(const CallForm& form, const SpecialToken& special = no_special) {
  const auto grammar = call_grammar(form, tools(), special);
  EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
  if (!grammar) return "";
  EXPECT_EQ(grammar->kind, GrammarKind::kLark);
  return grammar->text;
}

CallForm must(ToolFormat format) {
  CallForm form;
  form.format = format;
  form.must_call = true;
  return form;
}

TEST(CallGrammarTest, EachFamilySpellsCallsInItsWay) {
  const std::string hermes = text_of(must(ToolFormat::kHermes));
  EXPECT_THAT(hermes, StartsWith("start: calls\ncalls: \"<tool_call>\" \"\\n\" call "));
  EXPECT_THAT(hermes, HasSubstr("call: call0 | call1\n"));
  EXPECT_THAT(hermes, HasSubstr(R"(call0: "{\"name\": \"f\", \"arguments\": " args0 "}")"));
  EXPECT_THAT(hermes, HasSubstr("\nargs0: %json {\"type\":\"object\",\"properties\":{\"z\":"));
  EXPECT_THAT(hermes, HasSubstr("\nargs1: %json {\"type\":\"object\",\"properties\":{},"
                                "\"additionalProperties\":false}\n"));
  const std::string llama = text_of(must(ToolFormat::kLlama));
  EXPECT_THAT(llama, HasSubstr(R"(call0: "{\"name\": \"f\", \"parameters\": " args0 "}")"));
  const std::string mistral = text_of(must(ToolFormat::kMistral), all_special);
  EXPECT_THAT(mistral, HasSubstr("calls: <[12]> \"[\" call (\", \" call)* \"]\""));
  CallForm newer = must(ToolFormat::kMistral);
  newer.names_first = true;
  EXPECT_THAT(text_of(newer, all_special), HasSubstr("call0: \"f\" <[6]> args0\n"));
  const std::string phi = text_of(must(ToolFormat::kPhi), all_special);
  EXPECT_THAT(phi, HasSubstr("calls: <[13]> \"[\" call (\", \" call)* \"]\" <[14]>"));
}

TEST(CallGrammarTest, OneCallWhereNoMoreAreAskedFor) {
  EXPECT_THAT(text_of(must(ToolFormat::kHermes)), HasSubstr(")*"));
  EXPECT_THAT(text_of(must(ToolFormat::kLlama)), Not(HasSubstr(")*"))) << "it has one";
  for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kMistral, ToolFormat::kPhi}) {
    CallForm one = must(format);
    one.is_parallel = false;
    EXPECT_THAT(text_of(one), Not(HasSubstr(")*")));
    CallForm named = must(format);
    named.name = "g";
    EXPECT_THAT(text_of(named), Not(HasSubstr(")*")));
    EXPECT_THAT(text_of(named), Not(HasSubstr("\"f\\\"")));
  }
}

TEST(CallGrammarTest, TextBesideCalls) {
  CallForm form;
  EXPECT_THAT(text_of(form), StartsWith("start: led | TEXT?\n"));
  EXPECT_THAT(text_of(form), HasSubstr("\nlead[lazy]: /(?s:.*)<tool_call>/\n"));
  EXPECT_THAT(text_of(form, all_special), StartsWith("start: TEXT? calls?\n"));
  form.format = ToolFormat::kPhi;
  EXPECT_THAT(text_of(form), HasSubstr(R"(/(?s:.*)<\|tool_call\|>/)"));
  form.format = ToolFormat::kLlama;
  EXPECT_THAT(text_of(form), StartsWith("start: calls | TEXT?\n"));
}

TEST(CallGrammarTest, AnotherFormBesideCalls) {
  CallForm form;
  form.other = AskedGrammar{{GrammarKind::kJsonSchema, R"({"z":1})"}, "text.format.schema"};
  EXPECT_THAT(text_of(form), StartsWith("start: calls | other\n"));
  EXPECT_THAT(text_of(form), HasSubstr("\nother: %json {\"z\":1}\n"));
  form.other = AskedGrammar{GrammarSpec(), "response_format"};
  EXPECT_THAT(text_of(form), HasSubstr("\nother: %json {\"type\":\"object\"}\n"));
  form.format = ToolFormat::kLlama;
  EXPECT_EQ(call_grammar(form, tools(), no_special).error().param, "response_format");
  form.other = AskedGrammar{{GrammarKind::kRegex, "a"}, "structured_outputs.regex"};
  form.format = ToolFormat::kHermes;
  EXPECT_EQ(call_grammar(form, tools(), no_special).error().param, "structured_outputs.regex");
  form.must_call = true;
  EXPECT_TRUE(call_grammar(form, tools(), no_special)) << "no answer is without a call";
}

TEST(CallGrammarTest, WhatCannotBeMetIsRefusedByName) {
  CallForm form = must(ToolFormat::kHermes);
  form.name = "h";
  EXPECT_EQ(call_grammar(form, tools(), no_special).error().param, "tool_choice");
  form.name = "f";
  Json long_one = tools();
  long_one[0]["function"]["parameters"]["title"] = std::string(70'000, 'x');
  EXPECT_EQ(call_grammar(form, long_one, no_special).error().param, "tools");
}

TEST(CallGrammarTest, WhichWayATemplateShows) {
  EXPECT_TRUE(names_calls_first("[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}"));
  EXPECT_FALSE(names_calls_first("[TOOL_CALLS][{{ calls }}]"));
}

}  // namespace
}  // namespace paceline::api
