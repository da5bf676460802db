#include "serve/model_load.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Of a chain whose first stage computes half of the time and whose second one never does.
ModelLoad load_at(Duration time) {
  ModelLoad load;
  load.stage_busy_s = {to_seconds(time) / 2, 0.0};
  load.at = TimePoint(time);
  return load;
}

TEST(ModelLoad, SharesAreOfTheTimeBetweenTwoLooks) {
  const std::vector<double> use = stage_use(load_at(seconds(2)), load_at(seconds(6)));
  EXPECT_EQ(use, (std::vector<double>{0.5, 0.0}));
  EXPECT_DOUBLE_EQ(bubble_ratio(load_at(seconds(2)), load_at(seconds(6))), 0.75);
}

TEST(ModelLoad, NoTimeAndNoWorkAreNoBubbles) {
  EXPECT_EQ(stage_use(load_at(seconds(2)), load_at(seconds(2))), (std::vector<double>{0.0, 0.0}));
  EXPECT_EQ(bubble_ratio(load_at(seconds(2)), load_at(seconds(2))), 0);
  ModelLoad later = load_at(seconds(2));
  later.at += seconds(4);
  EXPECT_EQ(bubble_ratio(load_at(seconds(2)), later), 0) << "idle";
  EXPECT_EQ(bubble_ratio(ModelLoad{}, ModelLoad{}), 0) << "without stages";
}

TEST(ModelLoad, AStageThatCameSinceBeganWithNothing) {
  ModelLoad before = load_at(seconds(2));
  before.stage_busy_s.clear();
  EXPECT_EQ(stage_use(before, load_at(seconds(4))), (std::vector<double>{1.0, 0.0}));
}

TEST(LoadWindow, OneWhoLooksSeldomHasTheTimeSinceTheLookBefore) {
  LoadWindow window(load_at(seconds(0)));
  EXPECT_EQ(window.base_of(load_at(seconds(15))).at, TimePoint(seconds(0)));
  EXPECT_EQ(window.base_of(load_at(seconds(30))).at, TimePoint(seconds(15)));
  EXPECT_EQ(window.base_of(load_at(seconds(45))).at, TimePoint(seconds(30)));
}

TEST(LoadWindow, OneWhoLooksJustBehindAnotherSeesTheSame) {
  LoadWindow window(load_at(seconds(0)));
  for (int second = 5; second <= 60; second += 5) {
    const ModelLoad first = window.base_of(load_at(seconds(second)));
    const ModelLoad second_one = window.base_of(load_at(seconds(second) + milliseconds(10)));
    EXPECT_EQ(first.at, second_one.at);
    EXPECT_EQ(first.at, TimePoint(seconds(std::max(0, second - 10))));
  }
}

TEST(LoadWindow, ManyLooksAreNotKept) {
  LoadWindow window(load_at(seconds(0)));
  for (int i = 1; i <= 100'000; ++i) {
    const ModelLoad now = load_at(milliseconds(i));
    const Duration since = now.at - window.base_of(now).at;
    EXPECT_LE(since, LoadWindow::kLength + LoadWindow::kSpacing);
    EXPECT_GE(since, std::min(now.at - TimePoint(), LoadWindow::kLength));
  }
  EXPECT_LE(window.kept(), 12U);
}

}  // namespace
}  // namespace paceline::serve
