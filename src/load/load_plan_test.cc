#include "load/load_plan.h"

#include <gmock/gmock.h>

#include <set>

namespace paceline::load {
namespace {

using testing::HasSubstr;

LoadSpec spec() {
  LoadSpec spec;
  spec.vocabulary = 1000;
  spec.prompt_tokens = {20, 60};
  spec.output_tokens = {4, 8};
  return spec;
}

std::vector<PlannedRequest> all(const LoadSpec& spec,
                                std::vector<std::vector<std::int64_t>> prompts = {}) {
  LoadPlan plan(spec, std::move(prompts));
  std::vector<PlannedRequest> requests;
  while (auto request = plan.next()) requests.push_back(*std::move(request));
  return requests;
}

TEST(LoadPlanTest, RangesAreANumberOrTwo) {
  EXPECT_EQ(parse_range("128").value(), (Range{128, 128}));
  EXPECT_EQ(parse_range("64:256").value(), (Range{64, 256}));
  for (const char* wrong : {"", "0", "a", "5:", ":5", "9:3", "1:2:3", "-4", "1.5", "99999999999"}) {
    const auto range = parse_range(wrong);
    ASSERT_FALSE(range) << wrong;
    EXPECT_THAT(range.error().message(), HasSubstr("64:256"));
  }
}

TEST(LoadPlanTest, WhatMakesNoLoadIsNamed) {
  EXPECT_TRUE(check(spec()));
  auto wrong = spec();
  wrong.rate = -1;
  EXPECT_THAT(check(wrong).error().message(), HasSubstr("rate: -1"));
  wrong = spec();
  wrong.cancel_rate = 1.5;
  EXPECT_THAT(check(wrong).error().message(), HasSubstr("cancel rate: 1.5"));
  wrong = spec();
  wrong.vocabulary = 1;
  EXPECT_THAT(check(wrong).error().message(), HasSubstr("vocabulary"));
  wrong = spec();
  wrong.shared_prefix_tokens = 20;
  EXPECT_THAT(check(wrong).error().message(), HasSubstr("shared prefix: 20"));
}

TEST(LoadPlanTest, LengthsLieInTheirRangesAndReachTheirEnds) {
  auto many = spec();
  many.requests = 2000;
  std::set<std::size_t> prompts;
  std::set<std::uint32_t> outputs;
  for (const PlannedRequest& request : all(many)) {
    EXPECT_EQ(request.arrival, Duration());
    EXPECT_FALSE(request.cancel_after);
    prompts.insert(request.prompt.size());
    outputs.insert(request.output_tokens);
    for (const std::int64_t token : request.prompt) ASSERT_TRUE(token >= 0 && token < 1000);
  }
  EXPECT_EQ(*prompts.begin(), 20U);
  EXPECT_EQ(*prompts.rbegin(), 60U);
  EXPECT_EQ(outputs, (std::set<std::uint32_t>{4, 5, 6, 7, 8}));
}

TEST(LoadPlanTest, TheSeedDecides) {
  const auto once = all(spec());
  const auto again = all(spec());
  auto other = spec();
  other.seed = 1;
  const auto others = all(other);
  ASSERT_EQ(once.size(), 32U);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].prompt, again[i].prompt);
    EXPECT_EQ(once[i].seed, again[i].seed);
    EXPECT_NE(once[i].prompt, others[i].prompt);
  }
}

TEST(LoadPlanTest, ArrivalsHaveTheRateAndTheSpreadOfIndependentOnes) {
  auto open = spec();
  open.rate = 8;
  open.requests = 20000;
  double last = 0;
  double sum = 0;
  double squares = 0;
  for (const PlannedRequest& request : all(open)) {
    const double at = std::chrono::duration<double>(request.arrival).count();
    ASSERT_GE(at, last);
    sum += at - last;
    squares += (at - last) * (at - last);
    last = at;
  }
  const double mean = sum / 20000;
  EXPECT_NEAR(mean, 1.0 / 8, 0.004);
  // Exponential: the deviation is the mean.
  EXPECT_NEAR(squares / 20000 - mean * mean, mean * mean, 0.1 * mean * mean);
}

TEST(LoadPlanTest, AShareIsCancelledSomewhereInTheAnswer) {
  auto some = spec();
  some.cancel_rate = 0.25;
  some.requests = 4000;
  int cancelled = 0;
  std::set<std::uint32_t> places;
  for (const PlannedRequest& request : all(some)) {
    if (!request.cancel_after) continue;
    ++cancelled;
    places.insert(*request.cancel_after);
    EXPECT_LT(*request.cancel_after, request.output_tokens);
  }
  EXPECT_NEAR(cancelled, 1000, 100);
  EXPECT_TRUE(places.contains(0));
}

TEST(LoadPlanTest, PrefixesAreSharedAndFilesTakenInTurn) {
  auto shared = spec();
  shared.shared_prefix_tokens = 16;
  const auto requests = all(shared);
  EXPECT_TRUE(std::equal(requests[0].prompt.begin(), requests[0].prompt.begin() + 16,
                         requests[9].prompt.begin()));
  EXPECT_NE(requests[0].prompt[16], requests[9].prompt[16]);
  const auto given = all(spec(), {{1, 2}, {3}});
  EXPECT_EQ(given[0].prompt, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(given[3].prompt, (std::vector<std::int64_t>{3}));
  auto endless = spec();
  endless.requests = 0;
  LoadPlan plan(endless, {});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(plan.next());
}

}  // namespace
}  // namespace paceline::load
