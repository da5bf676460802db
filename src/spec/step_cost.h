// What a step costs by its number of rows.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::spec {

/// Measured points, rising in rows, with straight lines between them. Beyond the last point the
/// last two (or the origin and the only one) say how it goes on.
struct StepCost {
  struct Point {
    double rows = 0;
    double us = 0;
  };
  std::vector<Point> points;
  double hop_us = 0;    ///< what every step takes whatever its rows: links and dispatch
  double draft_us = 0;  ///< what each draft takes before its row: a draft model's time

  /// Compute and hops; 1 where nothing is known, so that ratios stay defined.
  double us(double rows) const;
};

}  // namespace paceline::spec
