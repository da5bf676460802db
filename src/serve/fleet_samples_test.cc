#include "serve/fleet_samples.h"

#include <gtest/gtest.h>

namespace paceline::serve {
namespace {

using api::Json;
using std::chrono::microseconds;

FleetSample sample(std::uint64_t number, std::vector<double> stage_use) {
  FleetSample made;
  made.number = number;
  made.unix_seconds = 1700000000 + static_cast<std::int64_t>(number);
  made.tokens_per_s = 1.23456 * static_cast<double>(number);
  made.stage_use = std::move(stage_use);
  return made;
}

TEST(FleetSamplesTest, ColumnsOfThoseThatAreNew) {
  FleetSamples samples(3);
  EXPECT_TRUE(samples.empty());
  EXPECT_EQ(samples.columns_after(0)["number"], Json::array()) << "a column without rows";
  for (std::uint64_t number = 1; number <= 5; ++number) samples.add(sample(number, {0.5}));
  EXPECT_EQ(samples.columns_after(0)["number"], (Json{3, 4, 5})) << "the last three are kept";
  const Json last = samples.columns_after(4);
  EXPECT_EQ(last["number"], Json::array({5}));
  EXPECT_EQ(last["time"], Json::array({1700000005}));
  EXPECT_EQ(last["tokens_per_s"], Json::array({6.173}));
  EXPECT_EQ(samples.columns_after(5)["number"], Json::array());
}

TEST(FleetSamplesTest, WhatWasNotMeasuredIsNull) {
  FleetSamples samples(10);
  samples.add(sample(1, {0.25}));
  FleetSample second = sample(2, {0.5, 1});
  second.first_token = obs::TimeSpread{microseconds(1500), microseconds(2500)};
  samples.add(second);
  const Json columns = samples.columns_after(0);
  EXPECT_EQ(columns["stage_use"], (Json{{0.25, 0.5}, {nullptr, 1.0}})) << "a stage was added";
  EXPECT_EQ(columns["first_token"]["median_ms"], (Json{nullptr, 1.5}));
  EXPECT_EQ(columns["first_token"]["high_ms"], (Json{nullptr, 2.5}));
  EXPECT_EQ(columns["next_token"]["median_ms"], (Json{nullptr, nullptr}));
}

}  // namespace
}  // namespace paceline::serve
