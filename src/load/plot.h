// Line plots as SVG text, for reports in one file. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline::load {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< rising in x
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
};

/// An <svg> element; axes from 0 to a round number above the largest value.
std::string to_svg(const Plot& plot);
/// `values` as the share of them at most x, in per cent.
Series cumulative(std::string name, std::vector<double> values);
/// The next of 1, 2, 5, 10, 20, ... at or above; 1 for what is not above 0.
double round_up(double value);

}  // namespace paceline::load
