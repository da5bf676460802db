#include <gmock/gmock.h>

#include <algorithm>

#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ResponseHandlerTest : public ServeTest {
 protected:
  static std::string body(const std::string& rest = "") {
    return R"({"input": "Hi", "temperature": 0)" + (rest.empty() ? "" : ", " + rest) + "}";
  }
  std::shared_ptr<FakeExchange> ask(const std::string& body) {
    script(hello_tokens());
    auto exchange = std::make_shared<FakeExchange>(body);
    handlers_->create_response(exchange);
    return exchange;
  }
  /// Each with its name on a line before it.
  static std::vector<ordered_json> events(const std::string& text) {
    std::vector<ordered_json> events;
    std::size_t begin = 0;
    for (std::size_t end = text.find("\n\n"); end != std::string::npos;
         begin = end + 2, end = text.find("\n\n", begin)) {
      const std::string event = text.substr(begin, end - begin);
      const std::size_t line = event.find("\ndata: ");
      EXPECT_THAT(event, StartsWith("event: "));
      if (line == std::string::npos) continue;
      events.push_back(ordered_json::parse(event.substr(line + 7)));
      EXPECT_EQ(event.substr(7, line - 7), events.back()["type"]);
      EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
    }
    EXPECT_EQ(begin, text.size()) << "nothing after the last event";
    return events;
  }
};

TEST_F(ResponseHandlerTest, AResponseAsAWhole) {
  const auto exchange = ask(body(R"("model": "test", "instructions": null)"));
  const auto json = exchange->wait().json();
  EXPECT_EQ(exchange->status(), 200) << exchange->text();
  EXPECT_THAT(json["id"].get<std::string>(), StartsWith("resp_"));
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["model"], "test");
  EXPECT_EQ(json["temperature"], 0);
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "Hello there.");
  EXPECT_EQ(json["usage"]["input_tokens"], hello_tokens());
  EXPECT_EQ(json["usage"]["output_tokens"], answer_.size() + 1);
}

TEST_F(ResponseHandlerTest, AStreamAddsUpToTheWhole) {
  const auto exchange = ask(body(R"("stream": true)"));
  const auto all = events(exchange->wait().text());
  EXPECT_FALSE(exchange->is_aborted());
  EXPECT_EQ(all.front()["type"], "response.created");
  EXPECT_EQ(all.back()["type"], "response.completed");
  std::string text;
  std::size_t deltas = 0;
  for (const auto& event : all) {
    if (event["type"] != "response.output_text.delta") continue;
    text += event["delta"];
    ++deltas;
  }
  EXPECT_EQ(text, "Hello there.");
  EXPECT_GT(deltas, 2U) << "token by token";
  const auto& response = all.back()["response"];
  EXPECT_EQ(response["output"][0]["content"][0]["text"], text);
  EXPECT_EQ(response["usage"]["output_tokens"], answer_.size() + 1);
  EXPECT_EQ(response["id"], all.front()["response"]["id"]);
}

TEST_F(ResponseHandlerTest, TheLimitMakesItIncomplete) {
  const auto json = ask(body(R"("max_output_tokens": 2)"))->wait().json();
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(json["usage"]["output_tokens"], 2);
  const auto all = events(ask(body(R"("max_output_tokens": 2, "stream": true)"))->wait().text());
  EXPECT_EQ(all.back()["type"], "response.incomplete");
}

TEST_F(ResponseHandlerTest, ThoughtsAndCallsAreItems) {
  say("<think>hm</think>\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>");
  const auto json =
      ask(body(R"("tools": [{"type": "function", "name": "f", "parameters": {}}])"))->wait().json();
  ASSERT_EQ(json["output"].size(), 2U) << json;
  EXPECT_EQ(json["output"][0]["type"], "reasoning");
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(json["output"][1]["type"], "function_call");
  EXPECT_EQ(json["output"][1]["name"], "f");
  EXPECT_EQ(ordered_json::parse(json["output"][1]["arguments"].get<std::string>())["a"], 1);
  EXPECT_GT(json["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(ResponseHandlerTest, LogprobsAddUpToTheText) {
  const auto json = ask(body(R"("include": ["message.output_text.logprobs"])"))->wait().json();
  std::string text;
  for (const auto& entry : json["output"][0]["content"][0]["logprobs"]) text += entry["token"];
  EXPECT_EQ(text, "Hello there.");
}

TEST_F(ResponseHandlerTest, AFailureIsTheLastEvent) {
  chain_->fail_at = 4;
  const auto stream = ask(body(R"("stream": true)"));
  const auto all = events(stream->wait().text());
  EXPECT_EQ(all.back()["type"], "response.failed");
  EXPECT_EQ(all.back()["response"]["error"]["code"], "server_error");
  EXPECT_THAT(stream->text(), Not(HasSubstr("worker")));
  EXPECT_THAT(stream->text(), Not(HasSubstr("response.completed")));
  expect_error(ask(body()), 503, "", "unavailable");
}

TEST_F(ResponseHandlerTest, Refusals) {
  expect_error(ask("{"), 400, "", "invalid_json");
  expect_error(ask(body(R"("model": "other")")), 404, "model", "model_not_found");
  expect_error(ask(body(R"("previous_response_id": "resp_1")")), 400, "previous_response_id",
               "unsupported_parameter");
  const auto too_long = ask(body(R"("max_output_tokens": 300)"));
  expect_error(too_long, 400, "max_output_tokens", "context_length_exceeded");
  EXPECT_THAT(too_long->text(), HasSubstr("max_output_tokens 300 exceed"));
  EXPECT_TRUE(chain_->steps.empty());
}

TEST_F(ResponseHandlerTest, TheFormOfTheTextAndOfCallsGoToTheLastStage) {
  const auto object = ask(body(R"("text": {"format": {"type": "json_object"}})"));
  EXPECT_EQ(object->wait().status(), 200) << object->text();
  EXPECT_EQ(chain_->steps.front().opened.at(0).sampling.grammar, GrammarSpec());
  const auto call = ask(body(R"("tools": [{"type": "function", "name": "f"}],
                                "tool_choice": {"type": "function", "name": "f"})"));
  EXPECT_EQ(call->wait().status(), 200) << call->text();
  const auto step = std::find_if(chain_->steps.rbegin(), chain_->steps.rend(),
                                 [](const auto& sent) { return !sent.opened.empty(); });
  ASSERT_NE(step, chain_->steps.rend());
  EXPECT_THAT(step->opened[0].sampling.grammar->text, HasSubstr("<tool_call>"));
  expect_error(ask(body(R"("text": {"format": {"type": "json_schema", "name": "n",
                                               "schema": {"type": "thing"}}})")),
               400, "text.format.schema", "invalid_value");
}

}  // namespace
}  // namespace paceline::serve
