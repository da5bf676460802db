#include "plan/divide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace paceline::plan {
namespace {

using Ranges = std::vector<LayerRange>;

double slowest(const LayerCosts& costs, const Ranges& ranges, const std::vector<double>& weights) {
  double worst = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    worst = std::max(worst, static_cast<double>(stage_bytes(costs, ranges[i])) / weights[i]);
  }
  return worst;
}

/// The least possible maximum, by trying every division.
double brute_force(const LayerCosts& costs, const std::vector<double>& weights) {
  double best = std::numeric_limits<double>::infinity();
  const auto layers = static_cast<std::uint32_t>(costs.layers.size());
  Ranges ranges;
  const std::function<void(std::uint32_t)> extend = [&](std::uint32_t begin) {
    const std::size_t left = weights.size() - ranges.size();
    if (left == 1) {
      ranges.push_back({begin, layers});
      best = std::min(best, slowest(costs, ranges, weights));
      ranges.pop_back();
      return;
    }
    for (std::uint32_t end = begin + 1; end + left - 1 <= layers; ++end) {
      ranges.push_back({begin, end});
      extend(end);
      ranges.pop_back();
    }
  };
  extend(0);
  return best;
}

void expect_covers(const LayerCosts& costs, const Ranges& ranges, std::size_t stages) {
  ASSERT_EQ(ranges.size(), stages);
  std::uint32_t end = 0;
  for (const LayerRange range : ranges) {
    ASSERT_EQ(range.begin, end);
    ASSERT_LT(range.begin, range.end);
    end = range.end;
  }
  ASSERT_EQ(end, costs.layers.size());
}

TEST(DivideTest, EqualLayersAreDividedEqually) {
  const LayerCosts costs = {std::vector<std::uint64_t>(30, 100), 0, 0, 0};
  EXPECT_EQ(divide(costs, 1).value(), (Ranges{{0, 30}}));
  EXPECT_EQ(divide(costs, 2).value(), (Ranges{{0, 15}, {15, 30}}));
  EXPECT_EQ(divide(costs, 3).value(), (Ranges{{0, 10}, {10, 20}, {20, 30}}));
  const auto all = divide(costs, 30);
  ASSERT_TRUE(all);
  expect_covers(costs, *all, 30);
}

TEST(DivideTest, EmbeddingAndHeadTakeLayersFromTheirStages) {
  // A head of four layers' bytes: 17 + 13, as measurement has it for such a model.
  const LayerCosts head = {std::vector<std::uint64_t>(30, 100), 0, 400, 7};
  EXPECT_EQ(divide(head, 2).value(), (Ranges{{0, 17}, {17, 30}}));
  const LayerCosts both = {std::vector<std::uint64_t>(4, 100), 1000, 1000, 0};
  EXPECT_EQ(divide(both, 3).value(), (Ranges{{0, 1}, {1, 3}, {3, 4}}));
}

TEST(DivideTest, WeightsAreProportionsOfBytes) {
  const LayerCosts costs = {std::vector<std::uint64_t>(30, 100), 0, 0, 0};
  EXPECT_EQ(divide_by_weights(costs, {10, 20}).value(), (Ranges{{0, 10}, {10, 30}}));
  EXPECT_EQ(divide_by_weights(costs, {1, 0.25, 0.25}).value(),
            (Ranges{{0, 20}, {20, 25}, {25, 30}}));
  // However small the weight, a stage holds a layer.
  EXPECT_EQ(divide_by_weights(costs, {1e-9, 1}).value(), (Ranges{{0, 1}, {1, 30}}));
}

TEST(DivideTest, WhatCannotBeDividedSaysWhy) {
  const LayerCosts costs = {{1, 2, 3}, 0, 0, 0};
  EXPECT_EQ(divide(costs, 0).error().message(), "stages: expected at least 1, got 0");
  EXPECT_EQ(divide(costs, 4).error().message(),
            "stages: expected at most 3, one for each layer of the model, got 4");
  EXPECT_EQ(divide(costs, UINT32_MAX).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(divide_by_weights(costs, {1, 0}).error().message(),
            "weights: expected positive numbers, got 0");
  EXPECT_FALSE(divide_by_weights(costs, {1, -1}));
  EXPECT_FALSE(divide_by_weights(costs, {1, std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_FALSE(divide_by_weights(costs, {1, std::numeric_limits<double>::infinity()}));
  EXPECT_FALSE(divide({{UINT64_MAX, 1}, 0, 0, 0}, 1));
  EXPECT_FALSE(divide({{}, 0, 0, 0}, 1));
}

TEST(DivideTest, RandomDivisionsAreAsGoodAsTryingAll) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    LayerCosts costs;
    costs.layers.resize(1 + random() % 9);
    for (auto& bytes : costs.layers) bytes = random() % (round % 2 == 0 ? 4 : 1000);
    costs.first = random() % 1500;
    costs.last = random() % 1500;
    costs.each = random() % 20;
    std::vector<double> weights(1 + random() % costs.layers.size());
    const bool equal = round % 3 == 0;
    for (double& weight : weights) weight = equal ? 1 : 1 + static_cast<double>(random() % 8);
    const auto ranges = divide_by_weights(costs, weights);
    ASSERT_TRUE(ranges) << ranges.error().message();
    expect_covers(costs, *ranges, weights.size());
    ASSERT_EQ(slowest(costs, *ranges, weights), brute_force(costs, weights)) << "round " << round;
  }
}

TEST(ParseWeightsTest, NumbersBetweenCommas) {
  EXPECT_EQ(parse_weights("10,20").value(), (std::vector<double>{10, 20}));
  EXPECT_EQ(parse_weights("0.5").value(), (std::vector<double>{0.5}));
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "1, 2", "0", "-1", "nan", "inf", "1e3",
                          "1;2", "0x10", "1,2x"}) {
    EXPECT_FALSE(parse_weights(bad)) << bad;
  }
  std::string many = "1";
  for (int i = 0; i < 1024; ++i) many += ",1";
  EXPECT_FALSE(parse_weights(many));
}

}  // namespace
}  // namespace paceline::plan
