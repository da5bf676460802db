// Nobody starves: simulated hours of overload with the real scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "sched/timed_chain_testing.h"

namespace paceline::sched {
namespace {

const spec::StepCost kStage = {{{1, 5000}, {32, 20000}, {512, 200000}}, 0};

struct Arrival {
  double us = 0;
  std::int32_t priority = 0;
  std::size_t prompt = 64;
  std::uint32_t answer = 32;
};

struct Served {
  double begun_us = -1;
  double ended_us = -1;
};

/// Runs the arrivals to their end; request i is arrivals[i].
std::vector<Served> serve(const SchedulerOptions& options, const std::vector<Arrival>& arrivals) {
  Scheduler scheduler(options);
  scheduler.set_pipeline({2, 3, 256});
  TimedChain chain(scheduler, {kStage, kStage}, {0, 0, 0});
  std::vector<Served> served(arrivals.size());
  chain.on_plan = [&](const StepPlan& step) {
    for (const OpenedSequence& opened : step.opened) {
      Served& one = served[opened.key.request.value()];
      if (one.begun_us < 0) one.begun_us = chain.now_us();
    }
  };
  chain.on_progress = [&](const Progress& progress) {
    if (progress.is_finished) served[progress.key.request.value()].ended_us = chain.now_us();
  };
  std::size_t next = 0;
  const auto submit_due = [&] {
    for (; next < arrivals.size() && arrivals[next].us <= chain.now_us(); ++next) {
      Request request;
      request.id = RequestId(next);
      request.prompt.assign(arrivals[next].prompt, static_cast<std::int64_t>(next + 1));
      request.max_tokens = arrivals[next].answer;
      request.priority = arrivals[next].priority;
      request.arrival =
          TimePoint(std::chrono::microseconds(static_cast<std::int64_t>(arrivals[next].us)));
      EXPECT_TRUE(scheduler.submit(request));
    }
  };
  submit_due();
  while (chain.advance()) submit_due();
  EXPECT_EQ(next, arrivals.size());
  EXPECT_TRUE(scheduler.is_idle());
  return served;
}

SchedulerOptions busy_options() {
  SchedulerOptions options;
  options.kv_blocks = 64;
  options.max_running = 8;
  options.max_waiting = 4096;
  options.priority_step = std::chrono::seconds(10);
  return options;
}

TEST(FairnessTest, EqualsAreServedInTheOrderOfArrival) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 300; ++i) {
    // Large ones among small ones: the large are not passed over.
    arrivals.push_back({i * 10000.0, 0, i % 5 == 0 ? std::size_t{1000} : std::size_t{20}, 40});
  }
  const std::vector<Served> served = serve(busy_options(), arrivals);
  for (std::size_t i = 1; i < served.size(); ++i) {
    ASSERT_GE(served[i].begun_us, served[i - 1].begun_us) << "request " << i;
  }
}

TEST(FairnessTest, AFloodOfHigherPriorityDelaysByItsWorthInTimeAndNoMore) {
  const std::uint32_t seed = 4;
  std::mt19937 random(seed);
  std::vector<Arrival> arrivals;
  // More than the chain can do, for a minute of arrivals, all two levels up; every fiftieth is low.
  for (int i = 0; i < 2500; ++i) {
    arrivals.push_back({i * 25000.0, i % 50 == 0 ? 0 : 2, 20 + random() % 100, 20});
  }
  const std::vector<Served> served = serve(busy_options(), arrivals);
  int overtaken = 0;
  for (std::size_t low = 0; low < arrivals.size(); low += 50) {
    for (std::size_t high = low + 1; high < arrivals.size(); ++high) {
      if (arrivals[high].priority == 0) continue;
      if (served[high].begun_us < served[low].begun_us) ++overtaken;
      // Whoever came 20 s later than a waiting one does not pass it.
      if (arrivals[high].us <= arrivals[low].us + 20e6) continue;
      ASSERT_GE(served[high].begun_us, served[low].begun_us)
          << "seed " << seed << ": request " << high << " passed " << low;
    }
  }
  EXPECT_GT(overtaken, 1000) << "priority should count for something";
}

TEST(FairnessTest, UnderPreemptionTheOldestStillFinishesAndAllDoInTheEnd) {
  SchedulerOptions options = busy_options();
  options.kv_blocks = 24;  // 768 tokens for eight texts of up to 350
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 60; ++i) arrivals.push_back({i * 1000.0, 0, 50, 300});
  const std::vector<Served> served = serve(options, arrivals);
  for (const Served& one : served) EXPECT_GT(one.ended_us, 0);
  // First in, first out, but for those who run side by side.
  for (std::size_t i = options.max_running; i < served.size(); ++i) {
    ASSERT_GT(served[i].ended_us, served[i - options.max_running].ended_us) << "request " << i;
  }
}

TEST(FairnessTest, DecodesTakeTurnsWhereAStepCannotHoldThemAll) {
  SchedulerOptions options = busy_options();
  Scheduler scheduler(options);
  scheduler.set_pipeline({1, 1, 3});
  TimedChain chain(scheduler, {kStage}, {0, 0});
  std::map<std::uint64_t, int> tokens;
  chain.on_progress = [&](const Progress& progress) {
    tokens[progress.key.request.value()] += static_cast<int>(progress.tokens.size());
  };
  for (std::uint64_t id = 1; id <= 8; ++id) {
    Request request;
    request.id = RequestId(id);
    request.prompt = {1, 2, static_cast<std::int64_t>(id)};
    request.max_tokens = 1000;
    ASSERT_TRUE(scheduler.submit(request));
  }
  while (tokens.size() < 8 && chain.now_us() < 1e7) chain.advance();
  ASSERT_EQ(tokens.size(), 8U) << "prompts get their part even so";
  // From here on all eight decode.
  tokens.clear();
  for (int i = 0; i < 160; ++i) chain.advance();
  const auto [least, most] = std::minmax_element(
      tokens.begin(), tokens.end(), [](auto& a, auto& b) { return a.second < b.second; });
  EXPECT_GE(least->second, 59);
  EXPECT_LE(most->second - least->second, 1);
}

}  // namespace
}  // namespace paceline::sched
