#include <gmock/gmock.h>

#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CompletionHandlerTest : public ServeTest {
 protected:
  std::string ids_json(const std::string& text) const { return ordered_json(ids(text)).dump(); }
};

TEST_F(CompletionHandlerTest, APromptAsTextOrIds) {
  for (const std::string& prompt : {std::string("\"Hi\""), ids_json("Hi"), std::string("[\"Hi\"]"),
                                    "[" + ids_json("Hi") + "]"}) {
    const auto exchange = ask_completion(R"({"temperature": 0, "prompt": )" + prompt + "}");
    const auto json = exchange->wait().json();
    EXPECT_EQ(exchange->status(), 200) << json;
    EXPECT_THAT(json["id"].get<std::string>(), StartsWith("cmpl-"));
    EXPECT_EQ(json["object"], "text_completion");
    EXPECT_EQ(json["choices"][0]["text"], "Hello there.") << prompt;
    EXPECT_EQ(json["usage"]["prompt_tokens"], ids("Hi").size());
  }
}

TEST_F(CompletionHandlerTest, SeveralPromptsWithSeveralAnswersEach) {
  const auto json =
      ask_completion(R"({"prompt": ["Hi", "Hi", "Hi"], "n": 2, "max_tokens": 1})")->wait().json();
  ASSERT_EQ(json["choices"].size(), 6U);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(json["choices"][i]["index"], i);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 3 * ids("Hi").size());
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);
}

TEST_F(CompletionHandlerTest, TheEchoComesFirst) {
  const std::string rest = R"("prompt": "Hi", "echo": true, "temperature": 0)";
  const auto json = ask_completion("{" + rest + "}")->wait().json();
  EXPECT_EQ(json["choices"][0]["text"], "HiHello there.");
  const auto events = ask_completion("{" + rest + R"(, "stream": true})")->wait().events();
  std::string text;
  for (const auto& event : events) {
    if (!event.is_string()) text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "HiHello there.");
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(CompletionHandlerTest, ThePromptIsScoredWithTheEcho) {
  const std::string body =
      R"({"prompt": "Hi", "echo": true, "logprobs": 1, "max_tokens": 0, "temperature": 0)";
  const auto choice = ask_completion(body + "}")->wait().json()["choices"][0];
  EXPECT_EQ(choice["text"], "Hi");
  const auto& logprobs = choice["logprobs"];
  const auto prompt = ids("Hi");
  ASSERT_EQ(logprobs["tokens"].size(), prompt.size());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null()) << "nothing says how likely the first is";
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    EXPECT_TRUE(logprobs["token_logprobs"][i].is_number());
  }
  const auto json = ask_completion(body + "}")->wait().json();
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
  const auto events = ask_completion(body + R"(, "stream": true})")->wait().events();
  EXPECT_EQ(events[0]["choices"][0]["logprobs"], logprobs);
}

TEST_F(CompletionHandlerTest, LogprobsOfTheAnswer) {
  chain_->top = {{5, -0.5F}};
  const std::string body = R"({"prompt": "Hi", "logprobs": 1, "temperature": 0)";
  const auto choice = ask_completion(body + "}")->wait().json()["choices"][0];
  const auto& logprobs = choice["logprobs"];
  std::string text;
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += logprobs["tokens"][i].get<std::string>();
    EXPECT_EQ(logprobs["token_logprobs"][i], -0.5);
    EXPECT_GE(logprobs["top_logprobs"][i].size(), 1U);
  }
  EXPECT_EQ(text, "Hello there.");
  std::size_t offset = 0;
  for (const auto& event : ask_completion(body + R"(, "stream": true})")->wait().events()) {
    if (event.is_string() || event["choices"][0]["logprobs"]["tokens"].empty()) continue;
    EXPECT_EQ(event["choices"][0]["logprobs"]["text_offset"][0], offset) << event;
    offset += event["choices"][0]["text"].get<std::string>().size();
  }
  EXPECT_EQ(offset, text.size());
}

TEST_F(CompletionHandlerTest, Refusals) {
  expect_error(ask_completion("{}"), 400, "prompt", "missing_required_parameter");
  expect_error(ask_completion(R"({"prompt": ""})"), 400, "prompt", "invalid_value");
  expect_error(ask_completion(R"({"prompt": [4000000000]})"), 400, "prompt", "invalid_value");
  expect_error(ask_completion(R"({"prompt": "Hi", "suffix": "x"})"), 400, "suffix",
               "unsupported_parameter");
  expect_error(ask_completion(R"({"prompt": "Hi", "max_tokens": 1000})"), 400, "max_tokens",
               "context_length_exceeded");
  expect_error(ask_completion(R"({"prompt": ["Hi", ""]})"), 400, "prompt", "invalid_value");
  EXPECT_TRUE(chain_->steps.empty()) << "refused before any work";
}

TEST_F(CompletionHandlerTest, WhereOnePromptFindsNoRoomNoneIsAnswered) {
  start(4);
  chain_->hold(true);
  std::string prompts = R"("Hi")";
  for (int i = 0; i < 300; ++i) prompts += R"(, "Hi")";
  const auto refused = ask_completion(R"({"prompt": [)" + prompts + R"(], "max_tokens": 1})");
  chain_->hold(false);
  expect_error(refused, 429, "", "queue_full");
  EXPECT_EQ(ask_completion(R"({"prompt": "Hi"})")->wait().status(), 200);
}

}  // namespace
}  // namespace paceline::serve
