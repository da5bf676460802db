#include "load/statistics.h"

#include <gtest/gtest.h>

namespace paceline::load {
namespace {

using std::chrono::milliseconds;

RequestRecord record(int arrival, int first, int last, std::uint32_t tokens) {
  RequestRecord record;
  record.arrival = milliseconds(arrival);
  record.first_token = milliseconds(first);
  record.last_token = milliseconds(last);
  record.prompt_tokens = 100;
  record.reused_tokens = 32;
  record.output_tokens = tokens;
  return record;
}

TEST(StatisticsTest, QuantilesLieBetweenTheNearest) {
  const std::vector<double> values = {1, 2, 3, 4, 10};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.875), 7);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 10);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{5}, 0.9), 5);
}

TEST(StatisticsTest, ADistributionIsThatOfItsValues) {
  const Distribution of = describe({10, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(of.mean, 4);
  EXPECT_DOUBLE_EQ(of.p50, 3);
  EXPECT_DOUBLE_EQ(of.most, 10);
  EXPECT_GT(of.p99, of.p90);
  EXPECT_DOUBLE_EQ(describe({}).p99, 0);
}

TEST(StatisticsTest, LatenciesAreThoseOfOneRequest) {
  const RequestRecord one = record(100, 350, 1350, 11);
  EXPECT_DOUBLE_EQ(one.ttft_ms(), 250);
  EXPECT_DOUBLE_EQ(one.tpot_ms(), 100);
  EXPECT_DOUBLE_EQ(record(0, 5, 5, 1).tpot_ms(), 0);
}

TEST(StatisticsTest, OnlyWhatIsDoneWithinTheTargetsIsGood) {
  std::vector<RequestRecord> records = {
      record(0, 200, 1200, 11),     // 100 ms per token
      record(0, 900, 1900, 11),     // late
      record(1000, 1200, 4000, 11)  // slow
  };
  const Summary loose = summarize(records, {});
  EXPECT_EQ(loose.good, 3U);
  EXPECT_DOUBLE_EQ(loose.seconds, 4);
  EXPECT_DOUBLE_EQ(loose.requests_per_second(), 0.75);
  EXPECT_DOUBLE_EQ(loose.output_tokens_per_second(), 33.0 / 4);
  EXPECT_DOUBLE_EQ(loose.tokens_per_second(), 333.0 / 4);
  EXPECT_EQ(loose.reused_tokens, 96U);
  EXPECT_EQ(summarize(records, {500, 0}).good, 2U);
  EXPECT_EQ(summarize(records, {500, 150}).good, 1U);
  EXPECT_DOUBLE_EQ(summarize(records, {500, 150}).good_per_second(), 0.25);
  EXPECT_EQ(summarize(records, {1, 0}).good, 0U);
}

TEST(StatisticsTest, CancelledOnesCountAsWorkAndRefusedOnesAsNothing) {
  std::vector<RequestRecord> records = {record(0, 200, 1200, 11), record(0, 300, 2000, 5),
                                        record(0, 0, 0, 0), record(0, 0, 0, 0)};
  records[1].outcome = records[2].outcome = Outcome::kCancelled;
  records[3].outcome = Outcome::kRefused;
  const Summary summary = summarize(records, {});
  EXPECT_EQ(summary.done, 1U);
  EXPECT_EQ(summary.cancelled, 2U);
  EXPECT_EQ(summary.refused, 1U);
  EXPECT_EQ(summary.output_tokens, 16U);
  EXPECT_EQ(summary.prompt_tokens, 200U) << "of those that were begun";
  EXPECT_DOUBLE_EQ(summary.ttft_ms.most, 200);
  EXPECT_DOUBLE_EQ(summary.seconds, 2);
  EXPECT_DOUBLE_EQ(summarize({}, {}).tokens_per_second(), 0);
}

/// Tokens every `gap` ms from `first` on.
RequestRecord ticking(int first, int gap, int tokens) {
  RequestRecord record;
  for (int i = 0; i < tokens; ++i) record.token_times.push_back(milliseconds(first + gap * i));
  return record;
}

TEST(StatisticsTest, TheSteadyRateIsThatWhileAllDecode) {
  // Alone until 1000 ms at twice the speed; both until 3000 ms.
  RequestRecord early = ticking(0, 50, 20);
  for (int i = 0; i <= 20; ++i) early.token_times.push_back(milliseconds(1000 + 100 * i));
  EXPECT_NEAR(steady_tokens_per_second(std::vector{early, ticking(1001, 100, 40)}), 20, 1e-9);
  EXPECT_NEAR(steady_tokens_per_second(std::vector{ticking(7, 10, 3)}), 100, 1e-9);
}

TEST(StatisticsTest, TokensThatComeAtOnceCountWithTheStepThatMadeThem) {
  RequestRecord record;
  for (const int ms : {100, 100, 100, 200, 200, 300})
    record.token_times.push_back(milliseconds(ms));
  EXPECT_NEAR(steady_tokens_per_second(std::vector{record}), 3 / 0.2, 1e-9);
}

TEST(StatisticsTest, WithoutATimeInWhichAllDecodeThereIsNoSteadyRate) {
  EXPECT_EQ(steady_tokens_per_second(std::vector{ticking(0, 10, 5), ticking(60, 10, 5)}), 0);
  EXPECT_EQ(steady_tokens_per_second(std::vector{ticking(0, 10, 1)}), 0);
  EXPECT_EQ(steady_tokens_per_second(std::vector<RequestRecord>{RequestRecord()}), 0);
  EXPECT_EQ(steady_tokens_per_second({}), 0);
  RequestRecord cancelled = ticking(0, 10, 5);
  cancelled.outcome = Outcome::kCancelled;
  EXPECT_EQ(steady_tokens_per_second(std::vector{ticking(0, 10, 5), cancelled}), 0);
}

}  // namespace
}  // namespace paceline::load
