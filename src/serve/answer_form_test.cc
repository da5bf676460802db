#include "serve/answer_form.h"

#include <algorithm>
#include <tuple>

#include "api/tool_choice.h"
#include "serve/serve_testing.h"
#include "text/grammar.h"

namespace paceline::serve {
namespace {

using api::ToolFormat;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
     "properties": {"z": {"$ref": "#/$defs/digit"}}, "required": ["z"],
     "additionalProperties": false, "$defs": {"digit": {"type": "integer", "maximum": 9,
                                                        "minimum": 0}}}}},
  {"type": "function", "function": {"name": "g"}}])";

/// Requests of calls against the tokens of a vocabulary in which marks are special or plain text.
class AnswerFormTest : public ServeTest {
 protected:
  struct Asked {
    ToolFormat format = ToolFormat::kHermes;
    bool must_call = false;
    bool is_strict = true;
    bool is_parallel = true;
    std::string name = {};
    std::optional<GrammarSpec> other = {};
    bool opens_reasoning = false;
  };

  api::ChatRequest request_of(const Asked& asked) const {
    api::ChatRequest request;
    request.prompt.tools = api::Json::parse(kTools);
    request.parses_tool_calls = true;
    request.must_call = asked.must_call;
    request.has_strict_tools = asked.is_strict;
    request.parallel_tool_calls = asked.is_parallel;
    request.named_tool = asked.name;
    if (asked.other) request.generation.grammar = api::AskedGrammar{*asked.other, "other"};
    return request;
  }
  std::optional<api::ApiError> settle(const Asked& asked, api::GenerationFields& fields) {
    const auto found = registry_->find("");
    return settle_chat_form(*found->model, request_of(asked), asked.format, asked.opens_reasoning,
                            fields);
  }
  /// Whether `answer` is one of the answers that are asked for.
  bool allows(const Asked& asked, const std::string& answer) {
    api::GenerationFields fields;
    const auto problem = settle(asked, fields);
    EXPECT_FALSE(problem) << problem->message;
    if (problem || !fields.grammar) return false;
    const auto vocabulary = text::GrammarVocabulary::create(tokenizer_);
    auto matcher = vocabulary->compile(fields.grammar->spec)->matcher();
    std::vector<std::uint32_t> words(fields_words());
    for (const std::int64_t id : ids(answer)) {
      if (!matcher->mask(words)) return false;
      const auto token = static_cast<std::uint32_t>(id);
      if ((words[token / 32] >> (token % 32) & 1U) == 0) return false;
      if (!matcher->commit({&token, 1})) return false;
    }
    return matcher->mask(words).value_or(false);
  }
  /// What the parser makes of it, as clients get it.
  static api::AnswerDelta parsed(const Asked& asked, const std::string& answer) {
    api::AnswerParserOptions options;
    options.tools = asked.format;
    options.tool_names = {"f", "g"};
    api::AnswerParser parser(options);
    api::AnswerDelta delta = parser.push(answer);
    delta.append(parser.finish());
    return delta;
  }
  void expect_calls(const Asked& asked, const std::string& answer, std::size_t calls) {
    EXPECT_TRUE(allows(asked, answer)) << answer;
    EXPECT_EQ(parsed(asked, answer).tool_calls.size(), calls) << answer;
  }

 private:
  std::size_t fields_words() const {
    return static_cast<std::size_t>(tokenizer_.vocabulary_size() + 31) / 32;
  }
};

// How a call of f and one of g are spelled, alone and together.
struct Spelled {
  ToolFormat format;
  std::string f;
  std::string g;
  std::string both;  ///< empty: the format has one call
  std::string bad;   ///< f with arguments that are none
};

std::vector<Spelled> spelled() {
  return {{ToolFormat::kHermes,
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": 1}}\n</tool_call>",
           "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": 1}}\n</tool_call>\n"
           "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": 10}}\n</tool_call>"},
          {ToolFormat::kLlama, "{\"name\": \"f\", \"parameters\": {\"z\": 1}}",
           "{\"name\": \"g\", \"parameters\": {}}", "",
           "{\"name\": \"f\", \"parameters\": {\"y\": 1}}"},
          {ToolFormat::kMistral, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"z\": 1}}]",
           "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}]",
           "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"z\": 1}}, {\"name\": \"g\", "
           "\"arguments\": {}}]",
           "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]"},
          {ToolFormat::kPhi,
           "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"z\": 1}}]<|/tool_call|>",
           "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]<|/tool_call|>",
           "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"z\": 1}}, {\"name\": \"g\", "
           "\"arguments\": {}}]<|/tool_call|>",
           "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"z\": \"1\"}}]<|/tool_call|>"}};
}

TEST_F(AnswerFormTest, ACallMustBe) {
  for (const Spelled& calls : spelled()) {
    Asked any{.format = calls.format, .must_call = true, .is_strict = false};
    expect_calls(any, calls.f, 1);
    expect_calls(any, calls.g, 1);
    if (!calls.both.empty()) expect_calls(any, calls.both, 2);
    for (const std::string& answer :
         {std::string("Hello."), std::string(), calls.bad, "Hello. " + calls.f}) {
      EXPECT_FALSE(allows(any, answer)) << answer;
    }
    Asked one = any;
    one.is_parallel = false;
    expect_calls(one, calls.f, 1);
    EXPECT_FALSE(!calls.both.empty() && allows(one, calls.both));
    Asked named = any;
    named.name = "g";
    expect_calls(named, calls.g, 1);
    EXPECT_FALSE(allows(named, calls.f));
  }
}

TEST_F(AnswerFormTest, ACallMayBe) {
  for (const Spelled& calls : spelled()) {
    const Asked strict{.format = calls.format};
    expect_calls(strict, "Hello, you.\nWell.", 0);
    expect_calls(strict, calls.f, 1);
    if (!calls.both.empty()) expect_calls(strict, calls.both, 2);
    EXPECT_TRUE(allows(strict, ""));
    EXPECT_FALSE(allows(strict, calls.bad));
    if (calls.format == ToolFormat::kLlama) continue;  // there a call is the whole answer
    expect_calls(strict, "Let me see.\n" + calls.f, 1);
    EXPECT_FALSE(allows(strict, "Let me see.\n" + calls.bad));
  }
}

TEST_F(AnswerFormTest, AnotherFormBesideCalls) {
  for (const Spelled& calls : spelled()) {
    if (calls.format == ToolFormat::kLlama) continue;  // refused: calls are JSON, too
    const Asked asked{.format = calls.format,
                      .is_strict = false,
                      .other = GrammarSpec{GrammarKind::kJsonSchema,
                                           R"({"type": "object", "properties": {"a": {"type":
                                               "integer"}}, "required": ["a"]})"}};
    expect_calls(asked, calls.f, 1);
    expect_calls(asked, R"({"a": 5})", 0);
    for (const std::string& answer :
         {std::string("Hello."), std::string(R"({"a": "b"})"), calls.bad}) {
      EXPECT_FALSE(allows(asked, answer)) << answer;
    }
  }
}

TEST_F(AnswerFormTest, ReasoningNeedsRoomBeforeTheForm) {
  api::GenerationFields fields;
  EXPECT_FALSE(settle({.opens_reasoning = true}, fields));
  const auto problem = settle({.must_call = true, .opens_reasoning = true}, fields);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->param, "tool_choice");
  EXPECT_EQ(problem->code, "unsupported_parameter");
}

TEST_F(AnswerFormTest, WhatIsNoSchemaIsRefusedByItsField) {
  api::ChatRequest request = request_of({.must_call = true});
  request.prompt.tools[0]["function"]["parameters"] = {{"type", "thing"}};
  api::GenerationFields fields;
  const auto found = registry_->find("");
  const auto problem = settle_chat_form(*found->model, request, ToolFormat::kHermes, false, fields);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->status, 400);
  EXPECT_EQ(problem->param, "tool_choice");
}

TEST_F(AnswerFormTest, WithoutAGrammarNothingIsSettled) {
  api::GenerationFields fields;
  EXPECT_FALSE(settle({.is_strict = false, .opens_reasoning = true}, fields));
  EXPECT_FALSE(fields.grammar);
  EXPECT_TRUE(fields.skip_special_tokens);
}

}  // namespace
}  // namespace paceline::serve
