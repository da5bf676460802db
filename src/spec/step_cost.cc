#include "spec/step_cost.h"

#include <algorithm>

namespace paceline::spec {
namespace {

double on_line(const StepCost::Point& a, const StepCost::Point& b, double rows) {
  if (b.rows <= a.rows) return b.us;
  return a.us + (b.us - a.us) * (rows - a.rows) / (b.rows - a.rows);
}

}  // namespace

double StepCost::us(double rows) const {
  if (points.empty()) return std::max(1.0, hop_us);
  const auto after = std::find_if(points.begin(), points.end(),
                                  [&](const Point& point) { return point.rows >= rows; });
  double compute = 0;
  if (after == points.begin()) {
    compute = after->us;  // fewer rows than measured: a step has a least cost
  } else if (after != points.end()) {
    compute = on_line(*(after - 1), *after, rows);
  } else {
    const Point before = points.size() > 1 ? points[points.size() - 2] : Point();
    compute = std::max(points.back().us, on_line(before, points.back(), rows));
  }
  return std::max(1.0, compute + hop_us);
}

}  // namespace paceline::spec
