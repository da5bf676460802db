#include "serve/request_meter.h"

#include <gmock/gmock.h>

namespace paceline::serve {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(RequestMeterTest, TokensTimesAndEnds) {
  obs::Metrics metrics;
  const TimePoint begin{};
  RequestMeter meter(&metrics.model("m"), 2, begin);
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
}

TEST(RequestMeterTest, WithoutMetricsNothingIsCounted) {
  RequestMeter meter(nullptr, 1, TimePoint());
  meter.add_tokens(0, 1, TimePoint());
  meter.finish({}, true, TimePoint());
  meter.fail(1, TimePoint());
}

}  // namespace
}  // namespace paceline::serve
