#include <gmock/gmock.h>

#include <thread>

#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ChatHandlerTest : public ServeTest {
 protected:
  struct Streamed {
    std::string content;
    std::string finish_reason;
    std::size_t roles = 0;
  };
  /// The deltas of answer `index`, added up as clients do.
  static Streamed add_up(const std::vector<ordered_json>& events, int index) {
    Streamed whole;
    for (const auto& event : events) {
      if (event.is_string() || event["choices"].empty()) continue;
      const auto& choice = event["choices"][0];
      if (choice["index"] != index) continue;
      EXPECT_EQ(whole.finish_reason, "") << "nothing after the end: " << event;
      whole.roles += choice["delta"].contains("role") ? 1 : 0;
      whole.content += choice["delta"].value("content", "");
      if (choice["finish_reason"].is_string()) whole.finish_reason = choice["finish_reason"];
    }
    return whole;
  }
  /// Then nobody writes to the chain any more.
  void expect_idle_soon() {
    for (int i = 0; i < 2000; ++i) {
      const auto stats = generator_->stats().scheduler;
      if (stats.running + stats.waiting == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const auto stats = generator_->stats().scheduler;
    EXPECT_EQ(stats.running + stats.waiting, 0U);
    generator_.reset();
  }
};

TEST_F(ChatHandlerTest, AnAnswerAsAWhole) {
  const auto exchange = ask_chat(hello(R"("model": "test")"));
  const auto json = exchange->wait().json();
  EXPECT_EQ(exchange->status(), 200);
  EXPECT_FALSE(exchange->is_stream());
  EXPECT_THAT(json["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "test");
  EXPECT_GT(json["created"], 1700000000);
  const auto& choice = json["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "Hello there.");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(json["usage"]["prompt_tokens"], hello_tokens());
  EXPECT_EQ(json["usage"]["completion_tokens"], answer_.size() + 1);
}

TEST_F(ChatHandlerTest, AnAnswerAsAStream) {
  const auto exchange = ask_chat(hello(R"("stream": true)"));
  const auto events = exchange->wait().events();
  EXPECT_TRUE(exchange->is_stream() && !exchange->is_aborted());
  EXPECT_THAT(exchange->head().content_type, StartsWith("text/event-stream"));
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.back(), "[DONE]");
  const auto& last = events[events.size() - 2]["choices"][0];
  EXPECT_EQ(last["finish_reason"], "stop");
  EXPECT_EQ(last["delta"], ordered_json::object());
  const auto whole = add_up(events, 0);
  EXPECT_EQ(whole.content, "Hello there.");
  EXPECT_EQ(whole.roles, 1U);
  EXPECT_FALSE(events.front().contains("usage"));
  EXPECT_GT(events.size(), 5U) << "token by token";
}

TEST_F(ChatHandlerTest, TheUsageIsAChunkOfItsOwn) {
  const auto events =
      ask_chat(hello(R"("stream": true, "stream_options": {"include_usage": true})"))
          ->wait()
          .events();
  const auto& usage = events[events.size() - 2];
  EXPECT_EQ(usage["choices"], ordered_json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], answer_.size() + 1);
  EXPECT_TRUE(events.front()["usage"].is_null());
}

TEST_F(ChatHandlerTest, NothingOfAStopStringIsShown) {
  const std::string rest = R"("stop": ["o the"], "logprobs": true)";
  const auto whole = ask_chat(hello(rest))->wait().json()["choices"][0];
  EXPECT_EQ(whole["message"]["content"], "Hell");
  EXPECT_EQ(whole["finish_reason"], "stop");
  std::string tokens;
  for (const auto& entry : whole["logprobs"]["content"]) tokens += entry["token"];
  EXPECT_THAT(tokens, Not(HasSubstr("the")));
  const auto exchange = ask_chat(hello(rest + R"(, "stream": true)"));
  EXPECT_EQ(add_up(exchange->wait().events(), 0).content, "Hell");
  EXPECT_THAT(exchange->text(), Not(HasSubstr("the")));
}

TEST_F(ChatHandlerTest, SeveralAnswers) {
  const auto json = ask_chat(hello(R"("n": 3, "max_tokens": 2)"))->wait().json();
  ASSERT_EQ(json["choices"].size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    EXPECT_EQ(json["choices"][i]["finish_reason"], "length");
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], hello_tokens()) << "it counts once";
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);
  const auto events = ask_chat(hello(R"("n": 3, "stream": true)"))->wait().events();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(add_up(events, i).content, "Hello there.");
    EXPECT_EQ(add_up(events, i).finish_reason, "stop");
    EXPECT_EQ(add_up(events, i).roles, 1U);
  }
}

TEST_F(ChatHandlerTest, LogprobsAddUpToTheText) {
  say("Hi \xF0\x9F\x98\x80!");
  chain_->top = {{5, -0.5F}, {6, -2.0F}};
  const std::string rest = R"("logprobs": true, "top_logprobs": 2)";
  const auto json = ask_chat(hello(rest))->wait().json()["choices"][0];
  std::string bytes;
  for (const auto& entry : json["logprobs"]["content"]) {
    for (const int byte : entry["bytes"]) bytes += static_cast<char>(byte);
    EXPECT_EQ(entry["logprob"], -0.5);
    EXPECT_EQ(entry["top_logprobs"].size(), 2U);
  }
  EXPECT_EQ(bytes, "Hi \xF0\x9F\x98\x80!") << "without the end token";
  EXPECT_EQ(json["message"]["content"], bytes);
  std::string streamed;
  for (const auto& event : ask_chat(hello(rest + R"(, "stream": true)"))->wait().events()) {
    if (event.is_string() || event["choices"][0]["logprobs"].is_null()) continue;
    for (const auto& entry : event["choices"][0]["logprobs"]["content"]) {
      for (const int byte : entry["bytes"]) streamed += static_cast<char>(byte);
    }
  }
  EXPECT_EQ(streamed, bytes);
}

TEST_F(ChatHandlerTest, ReasoningAndToolCalls) {
  say("<think>hm</think><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>");
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const auto choice = ask_chat(hello(tools))->wait().json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["reasoning_content"], "hm");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  const auto& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "f");
  EXPECT_EQ(call["function"]["arguments"], R"({"a": 1})");
  std::string arguments;
  std::size_t names = 0;
  for (const auto& event : ask_chat(hello(tools + R"(, "stream": true)"))->wait().events()) {
    if (event.is_string()) continue;
    for (const auto& delta :
         event["choices"][0]["delta"].value("tool_calls", ordered_json::array())) {
      arguments += delta["function"]["arguments"].get<std::string>();
      names += delta["function"].contains("name") ? 1 : 0;
    }
  }
  EXPECT_EQ(arguments, R"({"a": 1})");
  EXPECT_EQ(names, 1U);
  const auto none = ask_chat(hello())->wait().json()["choices"][0];
  EXPECT_THAT(none["message"]["content"].get<std::string>(), StartsWith("<tool_call>"));
  EXPECT_EQ(none["finish_reason"], "stop");
}

TEST_F(ChatHandlerTest, WithoutALimitTheContextIsTheLimit) {
  answer_.clear();
  chain_->model = [](const text::Ids&) { return std::int64_t{40}; };
  auto exchange = std::make_shared<FakeExchange>(hello());
  handlers_->chat(exchange);
  const auto json = exchange->wait().json();
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["total_tokens"], kContext);
}

TEST_F(ChatHandlerTest, WhatDoesNotFitIsRefused) {
  expect_error(ask_chat(hello(R"("max_tokens": 300)")), 400, "max_tokens",
               "context_length_exceeded");
  std::string words;
  for (std::uint32_t i = 0; i < kContext; ++i) words += " one two";
  expect_error(ask_chat(R"({"messages": [{"role": "user", "content": ")" + words + R"("}]})"), 400,
               "", "context_length_exceeded");
  EXPECT_TRUE(chain_->steps.empty());
}

TEST_F(ChatHandlerTest, Refusals) {
  expect_error(ask_chat("{"), 400, "", "invalid_json");
  expect_error(ask_chat(R"({"messages": []})"), 400, "messages", "invalid_value");
  expect_error(ask_chat(hello(R"("model": "other")")), 404, "model", "model_not_found");
  expect_error(ask_chat(hello(R"("logit_bias": {"4000000000": 1})")), 400, "logit_bias",
               "invalid_value");
  expect_error(ask_chat(hello(R"("stop_token_ids": [4000000000])")), 400, "stop_token_ids",
               "invalid_value");
  const auto raised =
      ask_chat(R"({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]})");
  expect_error(raised, 400, "messages", "");
  EXPECT_THAT(raised->json()["error"]["message"].get<std::string>(), HasSubstr("no tools"));
}

TEST_F(ChatHandlerTest, AboveTheQueuesLimitClientsAreToldToComeAgain) {
  start(2);
  chain_->hold(true);
  std::vector<std::shared_ptr<FakeExchange>> exchanges;
  for (int i = 0; i < 200; ++i) exchanges.push_back(ask_chat(hello(R"("n": 2)")));
  std::size_t refused = 0;
  chain_->hold(false);
  for (const auto& exchange : exchanges) {
    exchange->wait();
    if (exchange->status() == 200) continue;
    ++refused;
    EXPECT_EQ(exchange->status(), 429);
    EXPECT_EQ(exchange->head().headers.at("Retry-After"), "1");
  }
  EXPECT_GT(refused, 0U);
  EXPECT_LT(refused, exchanges.size());
}

TEST_F(ChatHandlerTest, AClientThatGoesIsForgotten) {
  chain_->model = [](const text::Ids&) { return std::int64_t{40}; };
  chain_->hold(true);
  auto exchange = ask_chat(hello(R"("stream": true)"));
  exchange->go();
  chain_->hold(false);
  expect_idle_soon();
  EXPECT_LT(chain_->steps.size(), 20U) << "its context would take hundreds";
}

TEST_F(ChatHandlerTest, AClientThatGoesInMidStreamIsForgotten) {
  chain_->model = [](const text::Ids&) { return std::int64_t{40}; };
  auto exchange = std::make_shared<FakeExchange>(hello(R"("stream": true)"));
  exchange->goes_after_ = 600;
  chain_->hold(true);  // it would be through before the handler is
  handlers_->chat(exchange);
  chain_->hold(false);
  exchange->wait_for_text("chat.completion.chunk");
  expect_idle_soon();
  EXPECT_LT(chain_->steps.size(), 30U);
  EXPECT_THAT(exchange->text(), Not(HasSubstr("[DONE]")));
}

TEST_F(ChatHandlerTest, AFailureIsAnErrorNeverAShortAnswer) {
  chain_->fail_at = 4;
  const auto stream = ask_chat(hello(R"("stream": true)"));
  const auto events = stream->wait().events();
  EXPECT_TRUE(stream->is_aborted());
  EXPECT_EQ(events.back()["error"]["code"], "unavailable");
  EXPECT_THAT(events.back()["error"]["message"].get<std::string>(), Not(HasSubstr("worker")));
  const auto after = ask_chat(hello());
  expect_error(after, 503, "", "unavailable");
  EXPECT_TRUE(after->head().headers.contains("Retry-After"));
  FakeExchange health;
  handlers_->health(health);
  EXPECT_EQ(health.status(), 503);
}

TEST_F(ChatHandlerTest, AFailureBeforeTheFirstTokenIsAStatus) {
  chain_->fail_at = 1;
  const auto exchange = ask_chat(hello(R"("stream": true)"));
  expect_error(exchange, 503, "", "unavailable");
  EXPECT_FALSE(exchange->is_stream());
}

TEST_F(ChatHandlerTest, StreamsThatWaitArePinged) {
  ping_interval_ = std::chrono::milliseconds(30);
  start(64);
  chain_->hold(true);
  const auto stream = ask_chat(hello(R"("stream": true)"));
  stream->wait_for_text(": ping\n\n: ping\n\n");
  chain_->hold(false);
  EXPECT_EQ(add_up(stream->wait().events(), 0).content, "Hello there.");
}

TEST_F(ChatHandlerTest, TheEndOfTheServerIsAnError) {
  chain_->hold(true);
  const auto stream = ask_chat(hello(R"("stream": true)"));
  generator_.reset();
  expect_error(stream, 503, "", "unavailable");
}

TEST_F(ChatHandlerTest, TheLastMessageIsContinued) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}],
          "continue_final_message": true, "temperature": 0})";
  const auto prompt = ids("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHel");
  say("lo!");
  script(prompt.size());
  auto exchange = std::make_shared<FakeExchange>(body);
  handlers_->chat(exchange);
  const auto json = exchange->wait().json();
  EXPECT_EQ(json["usage"]["prompt_tokens"], prompt.size());
  EXPECT_EQ(json["choices"][0]["message"]["content"], "lo!");
}

TEST_F(ChatHandlerTest, AFormOfTheAnswerGoesToTheLastStage) {
  const auto exchange = ask_chat(hello(R"("response_format": {"type": "json_object"})"));
  EXPECT_EQ(exchange->wait().status(), 200) << exchange->text();
  EXPECT_EQ(chain_->steps.front().opened.at(0).sampling.grammar, GrammarSpec());
}

TEST_F(ChatHandlerTest, AFormThatIsNoneIsRefusedBeforeAnyWork) {
  expect_error(ask_chat(hello(R"("structured_outputs": {"regex": "(a"})")), 400,
               "structured_outputs.regex", "invalid_value");
  expect_error(ask_chat(hello(R"("structured_outputs": {"json":
                                  {"type": "integer", "multipleOf": 99999989}})")),
               400, "structured_outputs.json", "invalid_value");
  expect_error(ask_chat(hello(R"("response_format": {"type": "json_schema", "json_schema":
                                  {"name": "n", "schema": {"type": "thing"}}})")),
               400, "response_format.json_schema.schema", "invalid_value");
  EXPECT_TRUE(chain_->steps.empty());
}

TEST_F(ChatHandlerTest, AFormThatGetsNoFurtherIsTheRequestsFault) {
  chain_->sample_failure = "grammar: too complex";
  const auto exchange = ask_chat(hello(R"("response_format": {"type": "json_object"})"));
  EXPECT_EQ(exchange->wait().status(), 400) << exchange->text();
  EXPECT_EQ(exchange->json()["error"]["message"], "grammar: too complex");
  EXPECT_EQ(ask_chat(hello())->wait().status(), 200) << "the chain goes on";
}

}  // namespace
}  // namespace paceline::serve
