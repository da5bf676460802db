#include "api/completion_request.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void expect_refused(const std::string& body, const std::string& param,
                    const std::string& message = "") {
  const auto request = parse_completion_request(body);
  ASSERT_FALSE(request.has_value()) << body;
  EXPECT_EQ(request.error().param, param) << body;
  EXPECT_THAT(request.error().message, HasSubstr(message)) << body;
}

CompletionRequest parsed(const std::string& body) {
  const auto request = parse_completion_request(body);
  EXPECT_TRUE(request.has_value()) << request.error().message << "\n" << body;
  return request.value_or(CompletionRequest());
}

TEST(CompletionRequestTest, APromptIsTextOrIdsOrListsOfBoth) {
  EXPECT_THAT(parsed(R"({"prompt": "a"})").prompts, ElementsAre(PromptText("a")));
  EXPECT_THAT(parsed(R"({"prompt": ["a", "b"]})").prompts,
              ElementsAre(PromptText("a"), PromptText("b")));
  EXPECT_THAT(parsed(R"({"prompt": [1, 2]})").prompts, ElementsAre(PromptText(TokenIds{1, 2})));
  EXPECT_THAT(parsed(R"({"prompt": [[1, 2], [3]]})").prompts,
              ElementsAre(PromptText(TokenIds{1, 2}), PromptText(TokenIds{3})));
  EXPECT_THAT(parsed(R"({"prompt": ["a", [3]]})").prompts,
              ElementsAre(PromptText("a"), PromptText(TokenIds{3})));
}

TEST(CompletionRequestTest, OtherPromptsAreRefused) {
  expect_refused("{}", "prompt", "missing");
  for (const char* prompt : {"5", "[]", "{}", "true", "[[]]", "[1.5]", "[-1]", "[4294967296]",
                             "[1, \"a\"]", "[\"a\", 1]", "[[1], [\"a\"]]", "[null]"}) {
    expect_refused(R"({"prompt": )" + std::string(prompt) + "}", "prompt", "expected a string");
  }
}

TEST(CompletionRequestTest, DefaultsAndLogprobs) {
  const auto request = parsed(R"({"prompt": "a"})");
  EXPECT_EQ(request.generation.max_tokens, 16U);
  EXPECT_FALSE(request.echo);
  EXPECT_TRUE(request.add_special_tokens);
  EXPECT_FALSE(request.generation.logprobs);
  EXPECT_EQ(parsed(R"({"prompt": "a", "logprobs": 0})").generation.logprobs, 0U);
  EXPECT_EQ(parsed(R"({"prompt": "a", "logprobs": 5})").generation.logprobs, 5U);
  expect_refused(R"({"prompt": "a", "logprobs": 21})", "logprobs");
  expect_refused(R"({"prompt": "a", "logprobs": true})", "logprobs");
  EXPECT_EQ(parsed(R"({"prompt": "a", "min_tokens": 30})").generation.max_tokens, 30U);
}

TEST(CompletionRequestTest, NoTokensAreAskedForToScoreAPrompt) {
  EXPECT_EQ(parsed(R"({"prompt": "a", "max_tokens": 0, "echo": true})").generation.max_tokens, 0U);
  expect_refused(R"({"prompt": "a", "max_tokens": 0})", "max_tokens");
}

TEST(CompletionRequestTest, WhatIsNotOffered) {
  expect_refused(R"({"prompt": "a", "suffix": "b"})", "suffix");
  expect_refused(R"({"prompt": "a", "n": 2, "best_of": 1})", "best_of", "less than n");
  expect_refused(R"({"prompt": "a", "n": 2, "best_of": 3})", "best_of", "not offered");
  parsed(R"({"prompt": "a", "n": 2, "best_of": 2})");
  std::string many = R"({"n": 16, "prompt": ["a")";
  for (int i = 0; i < 64; ++i) many += R"(,"a")";
  expect_refused(many + "]}", "n", "at most 1024");
}

TEST(TokenizeRequestTest, TextOrMessages) {
  const auto text = parse_tokenize_request(R"({"prompt": "a", "add_special_tokens": false})");
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->text, "a");
  EXPECT_FALSE(text->add_special_tokens);
  const auto chat = parse_tokenize_request(R"({"messages": [{"role": "user", "content": "x"}]})");
  ASSERT_TRUE(chat.has_value());
  EXPECT_TRUE(chat->chat.has_value());
  EXPECT_FALSE(chat->add_special_tokens);
  EXPECT_FALSE(parse_tokenize_request("{}").has_value());
  EXPECT_FALSE(parse_tokenize_request(R"({"prompt": 5})").has_value());
}

TEST(DetokenizeRequestTest, Ids) {
  EXPECT_THAT(parse_detokenize_request(R"({"tokens": [1, 2]})")->tokens, ElementsAre(1, 2));
  EXPECT_TRUE(parse_detokenize_request(R"({"tokens": []})")->tokens.empty());
  EXPECT_EQ(parse_detokenize_request("{}").error().param, "tokens");
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": ["a"]})").error().param, "tokens");
}

}  // namespace
}  // namespace paceline::api
