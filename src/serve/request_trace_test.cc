#include "serve/request_trace.h"

#include <gmock/gmock.h>

#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr const char* kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Handlers with an exporter; what it sends is kept.
class RequestTraceTest : public ServeTest {
 protected:
  void SetUp() override {
    ServeTest::SetUp();
    obs::SpanExporterOptions options;
    options.interval = std::chrono::hours(1);
    exporter_ = std::make_unique<obs::SpanExporter>(
        options,
        [this](const std::string& body) {
          bodies_.push_back(body);
          return obs::SpanDelivery::kTaken;
        },
        traced_);
    HandlerOptions traced{ping_interval_, metrics_.get()};
    traced.spans = exporter_.get();
    handlers_ = std::make_unique<Handlers>(*registry_, clock_, traced);
  }
  std::shared_ptr<FakeExchange> ask(const std::string& body, const std::string& traceparent) {
    script(hello_tokens());
    auto exchange = std::make_shared<FakeExchange>(body);
    exchange->request_.method = "POST";
    exchange->request_.path = "/v1/chat/completions";
    if (!traceparent.empty()) exchange->request_.headers["traceparent"] = traceparent;
    handlers_->chat(exchange);
    exchange->wait();
    return exchange;
  }
  /// All spans that there were, by the end of all requests.
  std::vector<ordered_json> spans() {
    stop();
    exporter_.reset();
    std::vector<ordered_json> found;
    for (const std::string& body : bodies_) {
      const auto json = ordered_json::parse(body);
      for (const auto& span : json["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        found.push_back(span);
      }
    }
    return found;
  }
  static ordered_json attribute(const ordered_json& span, const std::string& key) {
    for (const auto& entry : span["attributes"]) {
      if (entry["key"] == key) return entry["value"].begin().value();
    }
    return {};
  }
  static std::int64_t time(const ordered_json& span, const char* name) {
    return std::stoll(span[name].get<std::string>());
  }

  obs::Metrics traced_;
  std::vector<std::string> bodies_;  ///< touched by one thread at a time
  std::unique_ptr<obs::SpanExporter> exporter_;
};

TEST_F(RequestTraceTest, ARequestIsASpanInItsClientsTrace) {
  EXPECT_EQ(ask(hello(), kParent)->status(), 200);
  const auto all = spans();
  ASSERT_THAT(all, SizeIs(4));
  const auto& whole = all[3];
  EXPECT_EQ(whole["name"], "POST /v1/chat/completions");
  EXPECT_EQ(whole["kind"], 2);
  EXPECT_EQ(whole["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(attribute(whole, "gen_ai.request.model"), "test");
  EXPECT_EQ(attribute(whole, "gen_ai.usage.input_tokens"), std::to_string(hello_tokens()));
  EXPECT_EQ(attribute(whole, "gen_ai.usage.output_tokens"), std::to_string(answer_.size() + 1));
  EXPECT_EQ(attribute(whole, "paceline.cancelled"), false);
  EXPECT_FALSE(whole.contains("status"));
  const char* names[] = {"queue", "prefill", "decode"};
  std::int64_t at = time(whole, "startTimeUnixNano");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i]["name"], names[i]);
    EXPECT_EQ(all[i]["traceId"], "0af7651916cd43dd8448eb211c80319c");
    EXPECT_EQ(all[i]["parentSpanId"], whole["spanId"]);
    EXPECT_EQ(time(all[i], "startTimeUnixNano"), at) << "each begins where the last one ended";
    at = time(all[i], "endTimeUnixNano");
  }
  EXPECT_GE(time(whole, "endTimeUnixNano"), at);
  EXPECT_THAT(bodies_, Each(Not(HasSubstr("Hello")))) << "nothing of answers";
  EXPECT_THAT(bodies_, Each(Not(HasSubstr("Hi")))) << "nor of prompts";
}

TEST_F(RequestTraceTest, WithoutAParentATraceOfItsOwn) {
  ask(hello(), "");
  ask(hello(), "no trace");
  const auto all = spans();
  ASSERT_THAT(all, SizeIs(8));
  EXPECT_FALSE(all[3].contains("parentSpanId"));
  EXPECT_NE(all[3]["traceId"], all[7]["traceId"]);
}

TEST_F(RequestTraceTest, WhatIsNotSampledIsNotSent) {
  ask(hello(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
  EXPECT_THAT(spans(), SizeIs(0));
}

TEST_F(RequestTraceTest, AFailureSaysSo) {
  chain_->fail_at = 1;
  EXPECT_EQ(ask(hello(), kParent)->status(), 503);
  const auto all = spans();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0]["status"]["code"], 2);
  EXPECT_EQ(attribute(all[0], "http.response.status_code"), "503");
}

TEST_F(RequestTraceTest, EachAnswerHasItsParts) {
  EXPECT_EQ(ask(hello(R"("n": 2)"), kParent)->status(), 200);
  const auto all = spans();
  ASSERT_THAT(all, SizeIs(7));
  EXPECT_EQ(attribute(all[6], "gen_ai.usage.input_tokens"), std::to_string(hello_tokens()))
      << "the prompt counts once";
}

}  // namespace
}  // namespace paceline::serve
