#include "load/plot.h"

#include <gmock/gmock.h>

#include <limits>

namespace paceline::load {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PlotTest, AxesEndAtRoundNumbers) {
  EXPECT_DOUBLE_EQ(round_up(0.7), 1);
  EXPECT_DOUBLE_EQ(round_up(1), 1);
  EXPECT_DOUBLE_EQ(round_up(3), 5);
  EXPECT_DOUBLE_EQ(round_up(120), 200);
  EXPECT_DOUBLE_EQ(round_up(0), 1);
  EXPECT_DOUBLE_EQ(round_up(std::numeric_limits<double>::quiet_NaN()), 1);
}

TEST(PlotTest, ALineIsInTheFrameAndNamed) {
  const std::string svg = to_svg({"A <title>", "x", "y & z", {{"one", {{0, 0}, {10, 100}}}}});
  EXPECT_THAT(svg, HasSubstr("A &lt;title&gt;"));
  EXPECT_THAT(svg, HasSubstr("y &amp; z"));
  EXPECT_THAT(svg, Not(HasSubstr("<title>")));
  // From the lower left corner of the frame to the upper right one.
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,236.0 544.0,28.0 \""));
  EXPECT_THAT(svg, HasSubstr(">one</text>"));
}

TEST(PlotTest, APlotOfNothingIsEmptyAndWhole) {
  const std::string svg = to_svg({"none", "", "", {}});
  EXPECT_THAT(svg, Not(HasSubstr("polyline")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

TEST(PlotTest, SharesRiseToAHundredPerCent) {
  const Series series = cumulative("c", {4, 1, 3, 2});
  ASSERT_EQ(series.points.size(), 4U);
  EXPECT_EQ(series.points[0], (std::pair<double, double>{1, 25}));
  EXPECT_EQ(series.points[3], (std::pair<double, double>{4, 100}));
}

}  // namespace
}  // namespace paceline::load
