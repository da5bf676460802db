#include "load/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/html.h"

namespace paceline::load {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 280;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 28;
constexpr double kBottom = 44;
constexpr int kTicks = 5;
constexpr std::array kColors = {"#1f5fa8", "#c1541b", "#2f8f4e", "#8a3fa0", "#b58900", "#5b6770"};

/// The place of a value on an axis that begins at 0.
class Frame {
 public:
  explicit Frame(const Plot& plot) {
    double most_x = 0;
    double most_y = 0;
    for (const Series& series : plot.series) {
      for (const auto& [x, y] : series.points) {
        most_x = std::max(most_x, x);
        most_y = std::max(most_y, y);
      }
    }
    most_x_ = round_up(most_x);
    most_y_ = round_up(most_y);
  }
  double most_x() const { return most_x_; }
  double most_y() const { return most_y_; }
  double x(double value) const { return kLeft + value / most_x_ * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return kHeight - kBottom - value / most_y_ * (kHeight - kTop - kBottom);
  }

 private:
  double most_x_ = 1;
  double most_y_ = 1;
};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

std::string axes(const Frame& frame) {
  std::string svg;
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double x = frame.most_x() * tick / kTicks;
    const double y = frame.most_y() * tick / kTicks;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
        frame.x(0), frame.y(y), frame.x(frame.most_x()), frame.y(y));
    svg += text_at(frame.x(0) - 6, frame.y(y) + 4, "end", fmt::format("{:g}", y));
    svg += text_at(frame.x(x), kHeight - kBottom + 16, "middle", fmt::format("{:g}", x));
  }
  return svg;
}

std::string line(const Series& series, const Frame& frame, const char* color) {
  std::string points;
  for (const auto& [x, y] : series.points) {
    points += fmt::format("{:.1f},{:.1f} ", frame.x(x), frame.y(y));
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n",
                     color, points);
}

}  // namespace

double round_up(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

Series cumulative(std::string name, std::vector<double> values) {
  Series series{std::move(name), {}};
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.points.emplace_back(
        values[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  return series;
}

std::string to_svg(const Plot& plot) {
  const Frame frame(plot);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\" "
      "font-family=\"sans-serif\" "
      "font-size=\"11\">\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += fmt::format("<text x=\"{}\" y=\"16\" font-size=\"13\" font-weight=\"bold\">{}</text>\n",
                     kLeft, escape_html(plot.title));
  svg += axes(frame);
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", plot.x_label);
  svg += fmt::format(
      "<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (kTop + kHeight - kBottom) / 2, escape_html(plot.y_label));
  double legend = kWidth - kRight;
  for (std::size_t i = plot.series.size(); i-- > 0;) {
    const char* color = kColors[i % kColors.size()];
    svg += line(plot.series[i], frame, color);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"16\" text-anchor=\"end\" fill=\"{}\">{}</text>\n",
                       legend, color, escape_html(plot.series[i].name));
    legend -= 7.0 * static_cast<double>(plot.series[i].name.size()) + 12;
  }
  return svg + "</svg>\n";
}

}  // namespace paceline::load
