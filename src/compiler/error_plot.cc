#include "compiler/error_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/html.h"

namespace paceline::compiler {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kTop = 16;
constexpr double kPlotWidth = 660;
constexpr double kPlotHeight = 350;
constexpr std::array<std::string_view, 10> kColors = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                      "#ff7f0e", "#17becf", "#8c564b", "#e377c2",
                                                      "#7f7f7f", "#bcbd22"};

/// 1, 2 or 5 times a power of ten, so that `range` has about five steps.
double step_of(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

struct Axes {
  double largest_x = 0.0;
  double largest_y = 0.0;

  double left(double x) const { return kLeft + x / largest_x * kPlotWidth; }
  double top(double y) const { return kTop + (1 - y / largest_y) * kPlotHeight; }
};

Axes axes_of(const std::vector<PlotLine>& lines) {
  Axes axes;
  for (const PlotLine& line : lines) {
    for (const PlotPoint point : line.points) {
      axes.largest_x = std::max(axes.largest_x, point.x);
      axes.largest_y = std::max(axes.largest_y, point.y);
    }
  }
  if (axes.largest_x <= 0) axes.largest_x = 1;
  if (axes.largest_y <= 0) axes.largest_y = 1;
  axes.largest_y *= 1.05;
  return axes;
}

std::string grid(const Axes& axes) {
  std::string svg;
  const double step_y = step_of(axes.largest_y);
  for (int i = 0; i * step_y <= axes.largest_y; ++i) {
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
        kLeft, kLeft + kPlotWidth, axes.top(i * step_y), kLeft - 8, axes.top(i * step_y) + 4,
        i * step_y);
  }
  const double step_x = std::max(step_of(axes.largest_x), 1.0);
  for (int i = 0; i * step_x <= axes.largest_x; ++i) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n",
                       axes.left(i * step_x), kTop + kPlotHeight + 18, i * step_x);
  }
  return svg;
}

std::string curve(const PlotLine& line, const Axes& axes, std::string_view color) {
  std::string points;
  std::string dots;
  for (const PlotPoint point : line.points) {
    const double x = axes.left(point.x);
    const double y = axes.top(point.y);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{} {}: {:.5f}</title>"
        "</circle>",
        x, y, color, escape_html(line.name), point.x, point.y);
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>{}\n", points,
      color, dots);
}

std::string legend_entry(std::size_t index, std::string_view name, std::string_view color) {
  const double x = kLeft + kPlotWidth + 24;
  const double y = kTop + 14 + 20 * static_cast<double>(index);
  return fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"3\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}"
      "</text>\n",
      x, y - 5, color, x + 20, y, escape_html(name));
}

}  // namespace

std::string plot_svg(const std::vector<PlotLine>& lines, std::string_view x_title,
                     std::string_view y_title) {
  const Axes axes = axes_of(lines);
  const double height = std::max(kHeight, 40 + 20 * static_cast<double>(lines.size()));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-size=\"12\">\n", kWidth,
      height);
  svg += grid(axes);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view color = kColors[i % kColors.size()];
    svg += curve(lines[i], axes, color);
    svg += legend_entry(i, lines[i].name, color);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     kLeft + kPlotWidth / 2, kTop + kPlotHeight + 40, escape_html(x_title));
  svg += fmt::format(
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>\n",
      kTop + kPlotHeight / 2, escape_html(y_title));
  return svg;
}

}  // namespace paceline::compiler
