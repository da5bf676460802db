// What a chain does at a time, and shares of the time between two looks at it. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sched/scheduler.h"

namespace paceline::serve {

/// What it has done since the model was there grows: whoever looks twice has what was between.
struct ModelLoad {
  sched::SchedulerStats scheduler;
  std::vector<double> stage_busy_s;  ///< of each stage, that it computed
  TimePoint at{};
};

/// Of each stage, the share of the time between two looks that it computed.
std::vector<double> stage_use(const ModelLoad& before, const ModelLoad& now);
/// Of the stages' time between two looks, the share in which they had nothing to compute; 0 where
/// none of them had anything: of a chain that is idle no stage waits for another.
double bubble_ratio(const ModelLoad& before, const ModelLoad& now);

/// Looks that are remembered, so that a share of the last seconds is the same for all who ask: it
/// is taken since the latest look that is as old as the window, and nobody's asking shortens it.
/// Where looks are further apart than the window it is taken since the look before.
/// Thread-compatible.
class LoadWindow {
 public:
  static constexpr Duration kLength = std::chrono::seconds(10);
  /// Looks that follow another sooner than this are not kept, so there are few.
  static constexpr Duration kSpacing = std::chrono::seconds(1);

  explicit LoadWindow(ModelLoad first) { looks_.push_back(std::move(first)); }

  /// What to compare `now` with. Times must not go back.
  ModelLoad base_of(const ModelLoad& now);
  std::size_t kept() const { return looks_.size(); }

 private:
  std::deque<ModelLoad> looks_;  ///< never empty
};

}  // namespace paceline::serve
