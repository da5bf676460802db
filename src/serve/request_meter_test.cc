#include "serve/request_meter.h"

#include <gmock/gmock.h>

namespace paceline::serve {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(RequestMeterTest, TokensTimesAndEnds) {
  obs::Metrics metrics;
  const TimePoint begin{};
  obs::Activity activity;
  RequestMeter meter({&metrics.model("m"), &activity, nullptr}, 2, begin);
  meter.add_tokens(0, 1, begin + milliseconds(100));
  meter.add_tokens(0, 4, begin + milliseconds(500));
  meter.add_tokens(0, 0, begin + milliseconds(600));
  meter.add_tokens(1, 2, begin + milliseconds(500));
  coordinator::Generation generation;
  generation.tokens = {1, 2, 3, 4, 5};
  generation.prompt_tokens = 10;
  generation.reused_tokens = 8;
  generation.queue_time = milliseconds(40);
  generation.time_to_first_token = milliseconds(100);
  meter.finish(generation, true, begin + milliseconds(500));
  meter.finish(generation, false, begin + milliseconds(500));
  meter.fail(1, begin + milliseconds(700));
  const std::string text = metrics.text();
  for (const char* line : {
           "paceline_generation_tokens_total{model=\"m\"} 7",
           "paceline_prompt_tokens_total{model=\"m\"} 10",
           "paceline_time_to_first_token_seconds_count{model=\"m\"} 2",
           "paceline_inter_token_latency_seconds_count{model=\"m\"} 5",
           "paceline_request_queue_time_seconds_count{model=\"m\"} 3",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("paceline_request_queue_time_seconds_sum{model=\"m\"} 0.08"));
  const obs::Activity::Interval seen = activity.take();
  EXPECT_EQ(seen.generation_tokens, 7U);
  EXPECT_EQ(seen.prompt_tokens, 10U);
  EXPECT_EQ(seen.first_token->high, milliseconds(500));
  EXPECT_EQ(seen.next_token->median, milliseconds(100));
}

TEST(RequestMeterTest, ARequestIsLoggedWithItsLastAnswer) {
  obs::RequestLog log;
  const TimePoint begin{};
  obs::RequestRecord request;
  request.id = "r1";
  RequestMeter meter({nullptr, nullptr, &log}, 2, begin, request);
  meter.add_tokens(0, 1, begin + milliseconds(100));
  meter.add_tokens(1, 3, begin + milliseconds(200));
  coordinator::Generation generation;
  generation.tokens = {1};
  generation.prompt_tokens = 10;
  generation.reused_tokens = 8;
  generation.queue_time = milliseconds(40);
  generation.finish_reason = coordinator::FinishReason::kStop;
  meter.finish(generation, true, begin + milliseconds(300));
  EXPECT_TRUE(log.after(0).empty());
  generation.finish_reason = coordinator::FinishReason::kLength;
  meter.finish(generation, false, begin + milliseconds(400));
  const auto records = log.after(0);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].id, "r1");
  EXPECT_EQ(records[0].prompt_tokens, 10U);
  EXPECT_EQ(records[0].reused_tokens, 8U);
  EXPECT_EQ(records[0].generated_tokens, 4U);
  EXPECT_EQ(records[0].queue, milliseconds(40));
  EXPECT_EQ(records[0].first_token, milliseconds(100));
  EXPECT_EQ(records[0].whole, milliseconds(400));
  EXPECT_EQ(records[0].end, "length");
  EXPECT_GT(records[0].unix_seconds, 1700000000);
}

TEST(RequestMeterTest, AFailedRequestIsLoggedOnce) {
  obs::RequestLog log;
  RequestMeter meter({nullptr, nullptr, &log}, 3, TimePoint());
  meter.fail(2, TimePoint() + milliseconds(5));
  EXPECT_TRUE(log.after(0).empty());
  meter.fail(1, TimePoint() + milliseconds(6));
  ASSERT_EQ(log.after(0).size(), 1U);
  EXPECT_EQ(log.after(0)[0].end, "error");
  EXPECT_FALSE(log.after(0)[0].first_token);
}

TEST(RequestMeterTest, WhatNobodyWasAskedForEndsAsTheLastOneDid) {
  obs::RequestLog log;
  RequestMeter meter({nullptr, nullptr, &log}, 5, TimePoint());
  meter.abandon(0, TimePoint());
  coordinator::Generation embedded;
  embedded.prompt_tokens = 7;
  embedded.mean = {1.0F};
  embedded.finish_reason = coordinator::FinishReason::kStop;
  meter.finish(embedded, true, TimePoint());
  coordinator::Generation cancelled;
  cancelled.prompt_tokens = 9;
  cancelled.finish_reason = coordinator::FinishReason::kCancelled;
  meter.finish(cancelled, true, TimePoint());
  EXPECT_TRUE(log.after(0).empty());
  meter.abandon(3, TimePoint() + milliseconds(6));
  ASSERT_EQ(log.after(0).size(), 1U);
  EXPECT_EQ(log.after(0)[0].end, "cancelled");
  EXPECT_EQ(log.after(0)[0].prompt_tokens, 7U) << "of those that were computed";
}

TEST(RequestMeterTest, WithoutMetricsNothingIsCounted) {
  RequestMeter meter({}, 1, TimePoint());
  meter.add_tokens(0, 1, TimePoint());
  meter.finish({}, true, TimePoint());
  meter.fail(1, TimePoint());
}

}  // namespace
}  // namespace paceline::serve
