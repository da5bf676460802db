// Lines in an SVG, with axes and a legend, for pages that stand alone. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::compiler {

struct PlotPoint {
  double x = 0.0;
  double y = 0.0;
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  ///< finite, not below 0
};

/// From (0, 0) to the largest x and y. At least one line with a point.
std::string plot_svg(const std::vector<PlotLine>& lines, std::string_view x_title,
                     std::string_view y_title);

}  // namespace paceline::compiler
