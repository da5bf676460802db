#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "serve/embedding_reply.h"
#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;

class EmbeddingHandlerTest : public ServeTest {
 protected:
  std::shared_ptr<FakeExchange> embed(const std::string& body) {
    auto exchange = std::make_shared<FakeExchange>(body);
    handlers_->embed(exchange);
    return exchange;
  }
  std::shared_ptr<FakeExchange> embed_all(const std::string& input) {
    return embed(R"({"input": )" + input + "}");
  }
  /// A JSON array of `count` times `item`.
  static std::string times(std::size_t count, const std::string& item) {
    std::string list = "[" + item;
    for (std::size_t i = 1; i < count; ++i) list += ", " + item;
    return list + "]";
  }
  /// Of the fake chain's mean, at length 1.
  std::vector<float> expected(const text::Ids& prompt) const {
    std::vector<float> mean = coordinator::FakeChain::mean_of(prompt);
    const double length = std::hypot(double{mean[0]}, double{mean[1]});
    for (float& value : mean) value = static_cast<float>(value / length);
    return mean;
  }
  std::string ids_json(const std::string& text) const { return ordered_json(ids(text)).dump(); }
};

TEST_F(EmbeddingHandlerTest, OneVectorForEachInputInAnyForm) {
  const auto hi = expected(ids("Hi"));
  const auto you = expected(ids("you there"));
  const std::string texts = R"(["Hi", "you there"])";
  const std::string as_ids = "[" + ids_json("Hi") + ", " + ids_json("you there") + "]";
  for (const std::string& input : {texts, as_ids}) {
    const auto exchange = embed(R"({"model": "test", "input": )" + input + "}");
    const auto json = exchange->wait().json();
    ASSERT_EQ(exchange->status(), 200) << json;
    EXPECT_EQ(json["object"], "list");
    EXPECT_EQ(json["model"], "test");
    ASSERT_EQ(json["data"].size(), 2U);
    EXPECT_EQ(json["data"][0]["embedding"].get<std::vector<float>>(), hi);
    EXPECT_EQ(json["data"][1]["embedding"].get<std::vector<float>>(), you);
    EXPECT_EQ(json["data"][1]["index"], 1);
    const std::size_t tokens = ids("Hi").size() + ids("you there").size();
    EXPECT_EQ(json["usage"], (ordered_json{{"prompt_tokens", tokens}, {"total_tokens", tokens}}));
  }
  for (const std::string& input : {std::string(R"("Hi")"), ids_json("Hi")}) {
    const auto json = embed(R"({"input": )" + input + "}")->wait().json();
    ASSERT_EQ(json["data"].size(), 1U) << json;
    EXPECT_EQ(json["data"][0]["embedding"].get<std::vector<float>>(), hi);
  }
  const auto coded = embed(R"({"input": "Hi", "encoding_format": "base64", "dimensions": 2})");
  EXPECT_EQ(coded->wait().json()["data"][0]["embedding"].get<std::string>().size(), 12U);
}

TEST_F(EmbeddingHandlerTest, ALongListTakesTurnsAndNoneIsMissing) {
  start(4);  // far fewer may wait than are asked for
  std::string inputs;
  for (std::int64_t i = 0; i < 600; ++i) {
    inputs += fmt::format("{}[{}, 5]", i == 0 ? "" : ", ", 10 + i % 80);
  }
  const auto exchange = embed(R"({"input": [)" + inputs + "]}");
  const auto json = exchange->wait().json();
  ASSERT_EQ(exchange->status(), 200) << json;
  ASSERT_EQ(json["data"].size(), 600U);
  for (std::int64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(json["data"][i]["index"], i);
    EXPECT_EQ(json["data"][i]["embedding"].get<std::vector<float>>(), expected({10 + i % 80, 5}));
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 1200);
  const auto records = log_.after(0);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].end, "stop");
  EXPECT_EQ(records[0].prompt_tokens, 1200U);
  EXPECT_EQ(records[0].generated_tokens, 0U);
  EXPECT_THAT(metrics_->text(), HasSubstr("paceline_prompt_tokens_total{model=\"test\"} 1200"));
}

TEST_F(EmbeddingHandlerTest, AnswersGoOnBesideIt) {
  chain_->hold(true);
  const auto embedded = embed_all(times(20, "[5, 6, 7]"));
  const auto answer = ask_completion(R"({"prompt": "Hi", "temperature": 0})");
  chain_->hold(false);
  EXPECT_EQ(answer->wait().json()["choices"][0]["text"], "Hello there.");
  EXPECT_EQ(embedded->wait().json()["data"].size(), 20U);
}

TEST_F(EmbeddingHandlerTest, WhatIsWrongIsRefusedBeforeAnyWork) {
  expect_error(embed("{}"), 400, "input", "missing_required_parameter");
  expect_error(embed(R"({"input": ""})"), 400, "input", "invalid_value");
  expect_error(embed(R"({"input": ["a", ""]})"), 400, "input", "invalid_value");
  expect_error(embed(R"({"input": []})"), 400, "input", "invalid_value");
  expect_error(embed(R"({"input": "x", "model": "other"})"), 404, "model", "model_not_found");
  expect_error(embed(R"({"input": [4000000000]})"), 400, "input", "invalid_value");
  expect_error(embed(R"({"input": "x", "dimensions": 1})"), 400, "dimensions",
               "unsupported_parameter");
  EXPECT_TRUE(chain_->steps.empty());
}

TEST_F(EmbeddingHandlerTest, AnInputBeyondTheContextIsNamedWithTheLimit) {
  const auto refused = embed_all("[[5], " + times(kContext, "5") + "]");
  expect_error(refused, 400, "input", "context_length_exceeded");
  EXPECT_THAT(refused->text(), HasSubstr("input 1 has 256 tokens, expected at most 255"));
  EXPECT_TRUE(chain_->steps.empty());
  EXPECT_EQ(embed_all(times(kContext - 1, "5"))->wait().status(), 200);
}

TEST_F(EmbeddingHandlerTest, WhereThereIsNoRoomAtAllItIsToldToComeBack) {
  start(0);
  const auto refused = embed_all(times(3, "[5]"));
  expect_error(refused, 429, "", "queue_full");
  EXPECT_EQ(refused->head().headers.at("Retry-After"), "1");
  EXPECT_TRUE(chain_->steps.empty());
}

TEST_F(EmbeddingHandlerTest, AClientThatGoesEndsIt) {
  chain_->hold(true);
  const auto exchange = embed_all(times(500, "[5, 6]"));
  exchange->go();
  chain_->hold(false);
  EXPECT_EQ(embed(R"({"input": "Hi"})")->wait().status(), 200) << "the next is served";
  for (int i = 0; i < 200 && log_.after(0).size() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto records = log_.after(0);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_TRUE(std::any_of(records.begin(), records.end(),
                          [](const auto& record) { return record.end == "cancelled"; }));
  std::size_t opened = 0;
  for (const auto& step : chain_->steps) opened += step.opened.size();
  EXPECT_LE(opened, EmbeddingReply::kAtOnce + 1) << "the rest of the list was never asked for";
}

TEST_F(EmbeddingHandlerTest, AFailedChainIsToldOnce) {
  chain_->fail_at = 1;
  const auto exchange = embed_all(times(300, "[5, 6]"));
  EXPECT_EQ(exchange->wait().status(), 503) << exchange->text();
}

TEST_F(EmbeddingHandlerTest, AModelThatIsUnloadedEndsItWithItsReason) {
  chain_->hold(true);
  const auto exchange = embed_all(times(300, "[5, 6]"));
  registry_->models().front()->end_all(Error(ErrorCode::kUnavailable, "it is unloaded"));
  chain_->hold(false);
  EXPECT_EQ(exchange->wait().status(), 503) << exchange->text();
}

TEST_F(EmbeddingHandlerTest, AModelWithoutMeansIsRefusedByName) {
  mean_width_ = 0;
  why_no_means_ = "worker w: it is old";
  start(64);
  const auto refused = embed(R"({"input": "x", "model": "test"})");
  expect_error(refused, 400, "model", "unsupported_model");
  EXPECT_THAT(refused->text(), HasSubstr("'test' gives no embeddings: worker w: it is old"));
}

}  // namespace
}  // namespace paceline::serve
