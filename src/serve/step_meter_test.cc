#include "serve/step_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace paceline::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StepMeterTest, TimesOfStagesAndBytesOfHops) {
  obs::Metrics metrics;
  const std::array<std::uint64_t, 1> hops = {1000};
  const std::array<wire::StageTime, 3> times = {wire::StageTime{StageId(0), 0, 4000},
                                                wire::StageTime{StageId(1), 2000, 3000},
                                                wire::StageTime{StageId(9), 1, 1}};
  count_step(metrics.model("m"), {7, false, times}, hops);
  count_step(metrics.model("m"), {3, true, times}, hops);
  count_step(metrics.model("m"), {0, false, {}}, hops);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr(R"(hop_bytes_total{from="0",model="m",to="1"} 10000)"));
  EXPECT_THAT(text,
              HasSubstr(R"(stage_compute_seconds_count{model="m",phase="decode",stage="0"} 1)"));
  EXPECT_THAT(text,
              HasSubstr(R"(stage_compute_seconds_sum{model="m",phase="prefill",stage="1"} 0.003)"));
  EXPECT_THAT(text, HasSubstr(R"(stage_queue_seconds_sum{model="m",stage="1"} 0.004)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(stage="9")"))) << "of a stage that is not there";
}

TEST(StepMeterTest, OneStageHasNoHops) {
  obs::Metrics metrics;
  const std::array<wire::StageTime, 1> times = {wire::StageTime{StageId(0), 0, 50}};
  count_step(metrics.model("m"), {1, false, times}, {});
  EXPECT_THAT(metrics.text(), Not(HasSubstr("hop_bytes_total{")));
  EXPECT_THAT(metrics.text(), HasSubstr(R"(stage_queue_seconds_count{model="m",stage="0"} 1)"));
}

}  // namespace
}  // namespace paceline::serve
