#include "serve/handlers.h"

#include <gmock/gmock.h>

#include "base/version.h"
#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HandlersTest : public ServeTest {
 protected:
  using Handle = void (Handlers::*)(http::Exchange&);
  std::shared_ptr<FakeExchange> call(Handle handle, const std::string& body = "") {
    auto exchange = std::make_shared<FakeExchange>(body);
    ((*handlers_).*handle)(*exchange);
    return exchange;
  }
};

TEST_F(HandlersTest, Models) {
  const auto list = call(&Handlers::list_models)->json();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "test");
  EXPECT_EQ(list["data"][0]["max_model_len"], kContext);
  FakeExchange one;
  one.request_.path_values["name"] = "test";
  handlers_->show_model(one);
  EXPECT_EQ(one.json(), list["data"][0]);
  const auto other = std::make_shared<FakeExchange>();
  other->request_.path_values["name"] = "org/other";
  handlers_->show_model(*other);
  expect_error(other, 404, "model", "model_not_found");
}

TEST_F(HandlersTest, TextToTokensAndBack) {
  const auto tokens =
      call(&Handlers::tokenize, R"({"prompt": "Hi you", "return_token_strs": true})")->json();
  EXPECT_EQ(tokens["tokens"], ordered_json(ids("Hi you")));
  EXPECT_EQ(tokens["count"], ids("Hi you").size());
  EXPECT_EQ(tokens["token_strs"].size(), ids("Hi you").size());
  const auto text =
      call(&Handlers::detokenize, R"({"tokens": )" + ordered_json(ids("Hi you")).dump() + "}")
          ->json();
  EXPECT_EQ(text["prompt"], "Hi you");
  EXPECT_EQ(call(&Handlers::tokenize, R"({"prompt": ""})")->json()["count"], 0);
  EXPECT_EQ(call(&Handlers::detokenize, R"({"tokens": []})")->json()["prompt"], "");
  const auto chat =
      call(&Handlers::tokenize, R"({"messages": [{"role": "user", "content": "Hi"}]})")->json();
  EXPECT_EQ(chat["count"], hello_tokens());
  expect_error(call(&Handlers::detokenize, R"({"tokens": [4000000000]})"), 400, "tokens",
               "invalid_value");
  expect_error(call(&Handlers::tokenize, "{}"), 400, "prompt", "missing_required_parameter");
  expect_error(call(&Handlers::tokenize, R"({"prompt": "x", "model": "y"})"), 404, "model",
               "model_not_found");
}

TEST_F(HandlersTest, HealthFollowsTheModels) {
  EXPECT_EQ(call(&Handlers::health)->status(), 200);
  registry_->announce("second");
  EXPECT_EQ(call(&Handlers::health)->status(), 503);
  EXPECT_TRUE(call(&Handlers::health)->head().headers.contains("Retry-After"));
  expect_error(ask_chat(hello(R"("model": "second")")), 503, "", "loading");
}

TEST_F(HandlersTest, Version) { EXPECT_EQ(call(&Handlers::version)->json()["version"], kVersion); }

TEST_F(HandlersTest, AllRoutesAreDescribed) {
  const auto described = call(&Handlers::describe)->json();
  EXPECT_EQ(described["openapi"], "3.1.0");
  for (const auto& route : handlers_->routes()) {
    std::string path = route.pattern;
    if (const auto dots = path.find("..."); dots != std::string::npos) path.erase(dots, 3);
    ASSERT_TRUE(described["paths"].contains(path)) << path;
    const std::string method = route.method == "GET" ? "get" : "post";
    ASSERT_TRUE(described["paths"][path].contains(method)) << route.method << " " << path;
    const auto& operation = described["paths"][path][method];
    // Open ones say so; all others have what the description says of all.
    EXPECT_EQ(operation.contains("security"), !route.policy.needs_key) << path;
    EXPECT_EQ(operation["responses"].contains("401"), route.policy.needs_key) << path;
    EXPECT_EQ(operation.contains("requestBody"), route.method == "POST") << path;
  }
}

TEST_F(HandlersTest, MetricsOfWhatWasAnswered) {
  ask_chat(hello())->wait();
  const auto response = call(&Handlers::show_metrics);
  EXPECT_EQ(response->head().content_type, obs::kMetricsContentType);
  const std::string text = response->text();
  EXPECT_THAT(text, HasSubstr("paceline_prompt_tokens_total{model=\"test\"} " +
                              std::to_string(hello_tokens())));
  EXPECT_THAT(text, HasSubstr("paceline_generation_tokens_total{model=\"test\"} " +
                              std::to_string(answer_.size() + 1)));
  EXPECT_THAT(text, HasSubstr("paceline_num_requests_running{model=\"test\"} 0"));
}

TEST_F(HandlersTest, RoutesAndWhichOfThemAskForAKey) {
  std::map<std::string, bool> keys;
  for (const auto& route : handlers_->routes()) {
    keys[route.method + " " + route.pattern] = route.policy.needs_key;
  }
  EXPECT_TRUE(keys.at("POST /v1/chat/completions"));
  EXPECT_TRUE(keys.at("GET /v1/models/{name...}"));
  EXPECT_FALSE(keys.at("GET /health"));
  const auto exchange = std::make_shared<FakeExchange>("{");
  for (const auto& route : handlers_->routes()) {
    if (route.pattern == "/v1/completions") route.handler(exchange);
  }
  EXPECT_EQ(exchange->status(), 400);
}

TEST_F(HandlersTest, AModelWithoutATokenizerTakesIdsOnly) {
  ServedModel::Parts parts;
  parts.facts = {0,  kContext, static_cast<std::uint64_t>(tokenizer_.vocabulary_size()),
                 {}, {kEnd},   0};
  parts.generator = generator_.get();
  registry_->set_ready("ids", std::make_shared<ServedModel>(std::move(parts)));
  expect_error(ask_chat(hello(R"("model": "ids")")), 400, "messages", "unsupported_parameter");
  expect_error(ask_completion(R"({"model": "ids", "prompt": "Hi"})"), 400, "prompt",
               "unsupported_parameter");
  expect_error(ask_completion(R"({"model": "ids", "prompt": [5], "stop": "x"})"), 400, "stop",
               "unsupported_parameter");
  expect_error(call(&Handlers::detokenize, R"({"model": "ids", "tokens": [5]})"), 400, "tokens",
               "unsupported_parameter");
  EXPECT_EQ(ask_completion(R"({"model": "ids", "prompt": [5], "echo": true})")->wait().status(),
            200);
}

}  // namespace
}  // namespace paceline::serve
