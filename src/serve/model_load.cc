#include "serve/model_load.h"

#include <algorithm>
#include <numeric>

namespace paceline::serve {

std::vector<double> stage_use(const ModelLoad& before, const ModelLoad& now) {
  std::vector<double> use(now.stage_busy_s.size(), 0.0);
  const double elapsed = to_seconds(now.at - before.at);
  for (std::size_t stage = 0; stage < use.size() && elapsed > 0; ++stage) {
    const double earlier = stage < before.stage_busy_s.size() ? before.stage_busy_s[stage] : 0.0;
    use[stage] = std::clamp((now.stage_busy_s[stage] - earlier) / elapsed, 0.0, 1.0);
  }
  return use;
}

double bubble_ratio(const ModelLoad& before, const ModelLoad& now) {
  const std::vector<double> use = stage_use(before, now);
  const double sum = std::accumulate(use.begin(), use.end(), 0.0);
  if (sum == 0) return 0;
  return std::clamp(1 - sum / static_cast<double>(use.size()), 0.0, 1.0);
}

ModelLoad LoadWindow::base_of(const ModelLoad& now) {
  while (looks_.size() > 1 && now.at - looks_[1].at >= kLength) looks_.pop_front();
  ModelLoad base = looks_.front();
  if (now.at - looks_.back().at >= kSpacing) looks_.push_back(now);
  return base;
}

}  // namespace paceline::serve
