#include "sched/learned_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

namespace paceline::sched {
namespace {

/// Steps that a mean remembers, and that the jitter does.
constexpr double kRemembered = 10;
constexpr double kCompared = 100;
/// So many steps of a class are believed; one or two may have met a delay of the machine.
constexpr double kBelieved = 3;
/// The largest number of rows that is a class of its own; above, two classes per power of two.
constexpr std::uint32_t kExact = 16;
/// The standard deviation of normally distributed numbers, by their mean absolute deviation.
constexpr double kDeviation = 1.2533;

std::uint32_t class_of(std::uint32_t rows) {
  if (rows <= kExact) return rows;
  const auto width = static_cast<std::uint32_t>(std::bit_width(rows));
  const std::uint32_t is_upper_half = rows >> (width - 2) & 1;
  return 2 * width + is_upper_half + kExact;
}

/// The least that a step of `rows` rows can take: no less than a smaller one, and so many of them
/// as make up a larger one no less than that.
double least_us(double rows, const std::vector<spec::StepCost::Point>& seen) {
  double least = 0;
  for (const spec::StepCost::Point& point : seen) {
    least =
        std::max(least, point.rows <= rows ? point.us : point.us / std::ceil(point.rows / rows));
  }
  return least;
}

/// Of small sizes that were not seen the least is believed: so they are tried where that pays, and
/// then they are known. Believing that they cost what lies between would keep every chain at the
/// number of groups that it began with.
std::vector<spec::StepCost::Point> with_unseen(const std::vector<spec::StepCost::Point>& seen) {
  std::vector<spec::StepCost::Point> points;
  if (seen.empty()) return points;
  auto next = seen.begin();
  for (double rows = 1; rows <= kExact && rows < seen.back().rows; ++rows) {
    if (next->rows == rows) {
      points.push_back(*next++);
    } else {
      points.push_back({rows, least_us(rows, seen)});
    }
  }
  points.insert(points.end(), next, seen.end());
  return points;
}

}  // namespace

void LearnedCost::observe(std::uint32_t rows, double us) {
  Mean& mean = means_[class_of(rows)];
  if (mean.steps > 0 && mean.us > 0) {
    // Steps of one class differ in rows; a share of them is what they differ in time at most.
    const double share = std::abs(us / mean.us - 1) - std::abs(rows / mean.rows - 1);
    compared_ = std::min(compared_ + 1, kCompared);
    jitter_ += (kDeviation * std::max(0.0, share) - jitter_) / compared_;
  }
  mean.steps = std::min(mean.steps + 1, kRemembered);
  mean.rows += (rows - mean.rows) / mean.steps;
  mean.us += (us - mean.us) / mean.steps;
  remake();
}

/// More rows never cost less: neighbours of which that was measured are noise around one mean (the
/// pool-adjacent-violators algorithm).
void LearnedCost::remake() {
  struct Pool {
    double us = 0;
    double steps = 0;
    std::vector<double> rows;
  };
  std::vector<Pool> pools;
  for (const auto& [size, mean] : means_) {
    if (mean.steps < kBelieved) continue;
    Pool pool = {mean.us, mean.steps, {mean.rows}};
    while (!pools.empty() && pools.back().us > pool.us) {
      Pool& before = pools.back();
      const double steps = before.steps + pool.steps;
      before.us = (before.us * before.steps + pool.us * pool.steps) / steps;
      before.steps = steps;
      before.rows.push_back(mean.rows);
      pool = std::move(before);
      pools.pop_back();
    }
    pools.push_back(std::move(pool));
  }
  std::vector<spec::StepCost::Point> seen;
  for (const Pool& pool : pools) {
    for (const double rows : pool.rows) seen.push_back({rows, pool.us});
  }
  cost_.points = with_unseen(seen);
}

}  // namespace paceline::sched
