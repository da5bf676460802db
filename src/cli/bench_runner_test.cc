#include "cli/bench_runner.h"

#include <gtest/gtest.h>

#include "coordinator/fake_chain_testing.h"

namespace paceline::cli {
namespace {

using coordinator::FakeChain;

class BenchRunnerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 64;

  coordinator::BatchGenerator& generator() {
    if (!generator_) {
      coordinator::BatchOptions options;
      options.scheduler.context_tokens = 64;
      options.scheduler.kv_blocks = kBlocks;
      options.scheduler.block_tokens = FakeChain::kBlockTokens;
      options.scheduler.max_waiting = most_waiting;
      options.speculation = coordinator::Speculation::kOff;
      generator_ =
          std::make_unique<coordinator::BatchGenerator>(chain_, 1, nullptr, clock_, options);
    }
    return *generator_;
  }
  static load::LoadSpec spec() {
    load::LoadSpec spec;
    spec.requests = 40;
    spec.vocabulary = 1000;
    spec.prompt_tokens = {5, 20};
    spec.output_tokens = {3, 9};
    return spec;
  }
  Result<BenchResult> run(const load::LoadSpec& spec, BenchOptions options = {}) {
    load::LoadPlan plan(spec, {});
    options.request.ignore_eos = true;
    return BenchRunner(generator(), clock_, std::move(options)).run(plan, interrupted_);
  }
  static std::size_t count(const BenchResult& result, load::Outcome outcome) {
    return static_cast<std::size_t>(
        std::count_if(result.records.begin(), result.records.end(),
                      [&](const auto& record) { return record.outcome == outcome; }));
  }

  std::uint32_t most_waiting = 256;
  SteadyClock clock_;
  FakeChain chain_;
  std::atomic<bool> interrupted_ = false;
  std::unique_ptr<coordinator::BatchGenerator> generator_;
};

TEST_F(BenchRunnerTest, EveryRequestIsAnsweredAndTimed) {
  const auto result = run(spec());
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(count(*result, load::Outcome::kDone), 40U);
  std::uint64_t tokens = 0;
  for (const load::RequestRecord& record : result->records) {
    EXPECT_GE(record.output_tokens, 3U);
    EXPECT_LE(record.output_tokens, 9U);
    EXPECT_LE(record.arrival, record.first_token);
    EXPECT_LE(record.first_token, record.last_token);
    ASSERT_EQ(record.token_times.size(), record.output_tokens);
    EXPECT_EQ(record.token_times.front(), record.first_token);
    EXPECT_EQ(record.token_times.back(), record.last_token);
    tokens += record.output_tokens;
  }
  EXPECT_EQ(result->samples.back().output_tokens, tokens);
  EXPECT_EQ(result->stage_use.size(), 1U);
  EXPECT_EQ(result->after.scheduler.available_blocks, kBlocks);
}

TEST_F(BenchRunnerTest, NoMoreAreAtOnceThanAskedFor) {
  BenchOptions options;
  options.concurrency = 3;
  ASSERT_TRUE(run(spec(), options));
  std::size_t most = 0;
  for (const wire::Step& step : chain_.steps) most = std::max(most, step.sequences.size());
  // Those that are freed stand in a step, too.
  EXPECT_LE(most, 6U);
  EXPECT_GE(most, 3U);
}

TEST_F(BenchRunnerTest, OpenArrivalsKeepTheirTimes) {
  auto open = spec();
  open.rate = 200;
  const auto result = run(open);
  ASSERT_TRUE(result) << result.error().message();
  load::LoadPlan plan(open, {});
  for (std::size_t i = 0; i < 40; ++i) {
    const Duration arrival = plan.next()->arrival;
    EXPECT_TRUE(
        std::any_of(result->records.begin(), result->records.end(), [&](const auto& record) {
          return record.arrival == arrival && record.first_token >= arrival;
        }));
  }
}

TEST_F(BenchRunnerTest, CancelledOnesEndAndLeaveNothing) {
  auto cancelling = spec();
  cancelling.cancel_rate = 1;
  cancelling.output_tokens = {30, 40};
  const auto result = run(cancelling);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->records.size(), 40U);
  EXPECT_GT(count(*result, load::Outcome::kCancelled), 0U);
  EXPECT_EQ(result->after.scheduler.available_blocks, kBlocks);
}

TEST_F(BenchRunnerTest, WhatIsRefusedIsCounted) {
  auto long_ones = spec();
  long_ones.prompt_tokens = {5, 100};  // of a context of 64
  const auto result = run(long_ones);
  ASSERT_TRUE(result) << result.error().message();
  const std::size_t refused = count(*result, load::Outcome::kRefused);
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(refused + count(*result, load::Outcome::kDone), 40U);
}

TEST_F(BenchRunnerTest, AnInterruptionAndTheTimeEndIt) {
  auto endless = spec();
  endless.requests = 0;
  BenchOptions options;
  options.duration = std::chrono::milliseconds(100);
  const auto timed = run(endless, options);
  ASSERT_TRUE(timed);
  EXPECT_GT(timed->records.size(), 1U);
  interrupted_ = true;
  const auto result = run(endless);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->records.empty());
}

TEST_F(BenchRunnerTest, AFailureOfTheChainIsTheError) {
  chain_.fail_at = 5;
  const auto failed = run(spec());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace paceline::cli
