#include "obs/metrics_text.h"

#include <gmock/gmock.h>

#include <cmath>

#include "obs/metrics.h"

namespace paceline::obs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto parsed = MetricsText::parse(text);
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error().message();
}

TEST(MetricsTextTest, WhatTheFormatHas) {
  const auto parsed = MetricsText::parse(
      "# HELP a Some help {\n# TYPE a counter\na 5\n\na{x=\"1\",y=\"two\"} 1.5e3 1700000000\n"
      "  a { x = \"q\\\"\\\\\\n\" , } +Inf\r\nb:c{} -Inf\nn NaN\n");
  ASSERT_TRUE(parsed) << parsed.error().message();
  const auto& samples = parsed->samples();
  ASSERT_EQ(samples.size(), 5U);
  EXPECT_EQ(samples[0].value, 5);
  EXPECT_EQ(samples[1].value, 1500);
  EXPECT_EQ(samples[1].labels.at("y"), "two");
  EXPECT_EQ(samples[2].labels.at("x"), "q\"\\\n");
  EXPECT_TRUE(std::isinf(samples[2].value));
  EXPECT_EQ(samples[3].name, "b:c");
  EXPECT_LT(samples[3].value, 0);
  EXPECT_TRUE(std::isnan(samples[4].value));
  EXPECT_TRUE(MetricsText::parse("")->samples().empty());
}

TEST(MetricsTextTest, OurOwnAreRead) {
  Metrics metrics;
  ModelMetrics& model = metrics.model("m \"quoted\"\\");
  model.set_requests(3, 4);
  model.observe_stage(0, StepPhase::kDecode, std::chrono::milliseconds(250));
  model.observe_stage(1, StepPhase::kDecode, std::chrono::milliseconds(500));
  model.observe_stage(1, StepPhase::kPrefill, std::chrono::milliseconds(500));
  metrics.model("other").set_requests(30, 40);
  const auto parsed = MetricsText::parse(metrics.text());
  ASSERT_TRUE(parsed) << parsed.error().message();
  const std::map<std::string, std::string> of_model = {{"model", "m \"quoted\"\\"}};
  EXPECT_EQ(parsed->sum("paceline_num_requests_running", of_model), 3);
  EXPECT_EQ(parsed->sum("paceline_num_requests_running", {}), 33);
  EXPECT_EQ(parsed->sum("paceline_nothing", {}), 0);
  const char* const compute = "paceline_stage_compute_seconds_sum";
  EXPECT_THAT(parsed->values_of("stage", compute, of_model), ElementsAre("0", "1"));
  auto of_stage = of_model;
  of_stage["stage"] = "1";
  EXPECT_DOUBLE_EQ(parsed->sum(compute, of_stage), 1.0);
}

TEST(MetricsTextTest, WhatIsNoneIsNamedByItsLine) {
  EXPECT_THAT(refusal("a 1\na\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("a 1x\n"), HasSubstr("line 1"));
  for (const char* const line :
       {"{x=\"1\"} 1", "a{x} 1", "a{x=1} 1", "a{x=\"1} 1", "a{x=\"1\"", "a{x=\"\\",
        "a{x=\"1\" y=\"2\"} 1", "a{,} 1", "<html>", "\xFF\xFE 1", "a\x01 1"}) {
    refusal(line);
  }
  std::string labels = "a{";
  for (int i = 0; i < 100; ++i) labels += "l" + std::to_string(i) + "=\"1\",";
  refusal(labels + "} 1");
  std::string many;
  for (std::size_t i = 0; i <= MetricsText::kMaxSamples; ++i) many += "a 1\n";
  EXPECT_THAT(refusal(many), HasSubstr("more than"));
}

}  // namespace
}  // namespace paceline::obs
