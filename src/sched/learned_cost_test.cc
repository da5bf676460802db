#include "sched/learned_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::sched {
namespace {

TEST(LearnedCostTest, SmallStepsAreToldApart) {
  LearnedCost cost;
  for (int i = 0; i < 20; ++i) {
    cost.observe(4, 26800);
    cost.observe(5, 43500);
    cost.observe(8, 51800);
    cost.observe(100, 300000);
    cost.observe(90, 270000);
    cost.observe(60, 200000);
  }
  EXPECT_NEAR(cost.cost().us(4), 26800, 1);
  EXPECT_NEAR(cost.cost().us(5), 43500, 1);
  EXPECT_NEAR(cost.cost().us(8), 51800, 1);
  EXPECT_NEAR(cost.cost().us(95), 285000, 3000);
  EXPECT_NEAR(cost.cost().us(60), 200000, 1);
  // Nothing was seen of one row: five of them take no less than five rows.
  EXPECT_NEAR(cost.cost().us(1), 8700, 1);
  // Nor of 6, 7, and 9 to 16: the least that they can take.
  EXPECT_EQ(cost.cost().us(7), cost.cost().us(5));
  EXPECT_EQ(cost.cost().us(16), cost.cost().us(8));
  // One step may have met a delay; a few are believed.
  cost.observe(1, 18700);
  cost.observe(1, 18700);
  EXPECT_NEAR(cost.cost().us(1), 8700, 1);
  cost.observe(1, 18700);
  EXPECT_NEAR(cost.cost().us(1), 18700, 1);
}

TEST(LearnedCostTest, OfSizesNotSeenTheLeastIsBelieved) {
  LearnedCost cost;
  for (int i = 0; i < 5; ++i) {
    cost.observe(6, 24000);
    cost.observe(8, 26000);
    cost.observe(200, 400000);
  }
  EXPECT_NEAR(cost.cost().us(4), 13000, 1) << "two of them are eight rows";
  EXPECT_NEAR(cost.cost().us(3), 12000, 1) << "two of them are six rows";
  EXPECT_NEAR(cost.cost().us(7), 24000, 1);
  EXPECT_NEAR(cost.cost().us(16), 400000.0 / 13, 1);
}

TEST(LearnedCostTest, MoreRowsNeverCostLess) {
  LearnedCost cost;
  for (int i = 0; i < 10; ++i) cost.observe(8, 20000);
  for (int i = 0; i < 3; ++i) cost.observe(4, 90000);
  EXPECT_NEAR(cost.cost().us(4), 20000 + 70000 * 3 / 13.0, 1);
  EXPECT_EQ(cost.cost().us(4), cost.cost().us(8));
  for (int i = 0; i < 30; ++i) cost.observe(4, 10000);
  EXPECT_LT(cost.cost().us(4), 15000);
  EXPECT_NEAR(cost.cost().us(8), 20000, 1);
  double before = 0;
  for (double rows = 1; rows < 64; ++rows) {
    EXPECT_GE(cost.cost().us(rows), before);
    before = cost.cost().us(rows);
  }
}

TEST(LearnedCostTest, JitterIsTheDeviationOfATime) {
  LearnedCost cost;
  std::mt19937 random(5);
  std::normal_distribution<double> noise(1, 0.08);
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t rows = i % 2 == 0 ? 4 : 12;
    cost.observe(rows, 3000.0 * rows * noise(random));
  }
  EXPECT_NEAR(cost.jitter(), 0.08, 0.02);
  // Steps of one class that differ in their rows are no noise.
  LearnedCost smooth;
  for (std::uint32_t i = 0; i < 400; ++i) smooth.observe(96 + i % 32, 1000.0 * (96 + i % 32));
  EXPECT_LT(smooth.jitter(), 0.03);
}

}  // namespace
}  // namespace paceline::sched
