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

}  // namespace
}  // namespace paceline::load
