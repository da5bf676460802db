#include "serve/stage_view.h"

#include <gtest/gtest.h>

namespace paceline::serve {
namespace {

coordinator::StageReport report(const std::string& address, LayerRange layers) {
  coordinator::StageReport made;
  made.entry.address = address;
  made.worker_name = "desk";
  made.ready.layers = layers;
  made.ready.weight_bytes = 1000;
  made.ready.resident_bytes = 5000;
  return made;
}

TEST(StageViewTest, WhatIsKnownOfTheWorkerNowCountsMore) {
  coordinator::WorkerState worker;
  worker.welcome.isa = "avx512_core";
  worker.welcome.threads = 8;
  worker.welcome.total_bytes = 1 << 30;
  worker.round_trip = std::chrono::milliseconds(3);
  wire::Pong pong;
  pong.resident_bytes = 7000;
  pong.queued_steps = 2;
  worker.pong = pong;
  const std::vector<coordinator::StageReport> stages = {report("a:1", {0, 4}),
                                                        report("b:2", {4, 9})};
  const auto views = stage_views(stages, {{"a:1", worker}});
  ASSERT_EQ(views.size(), 2U);
  EXPECT_EQ(views[0].layers, (LayerRange{0, 4}));
  EXPECT_EQ(views[0].worker, "desk");
  EXPECT_EQ(views[0].isa, "avx512_core");
  EXPECT_EQ(views[0].threads, 8U);
  EXPECT_EQ(views[0].resident_bytes, 7000U);
  EXPECT_EQ(views[0].queued_steps, 2U);
  EXPECT_EQ(views[0].round_trip, std::chrono::milliseconds(3));
  EXPECT_EQ(views[0].engine, "paged");
  EXPECT_EQ(views[1].address, "b:2");
  EXPECT_EQ(views[1].isa, "");
  EXPECT_EQ(views[1].resident_bytes, 5000U) << "as it was when it was ready";
  EXPECT_FALSE(views[1].round_trip);
}

TEST(StageViewTest, AWorkerThatHasNotAnsweredAPingYet) {
  const std::vector<coordinator::StageReport> stages = {report("a:1", {0, 4})};
  const auto views = stage_views(stages, {{"a:1", {}}});
  EXPECT_EQ(views[0].resident_bytes, 5000U);
}

}  // namespace
}  // namespace paceline::serve
