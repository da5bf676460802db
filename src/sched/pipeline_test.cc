#include "sched/pipeline.h"

#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "sched/timed_chain_testing.h"

namespace paceline::sched {
namespace {

// One thread, the whole of a small model, measured; prompts at 1400 tokens/s.
const std::vector<spec::StepCost::Point> kSmall = {{1, 10600},  {2, 11100},   {4, 12900},
                                                   {8, 17700},  {16, 27900},  {32, 47500},
                                                   {64, 71000}, {512, 391000}};

spec::StepCost part(double share) {
  spec::StepCost cost;
  for (const auto& point : kSmall) cost.points.push_back({point.rows, point.us * share});
  return cost;
}

double whole_us(double rows) { return part(1).us(rows); }

SchedulerOptions options(std::uint32_t running) {
  SchedulerOptions options;
  options.kv_blocks = 4096;
  options.max_running = running;
  options.max_waiting = 1024;
  return options;
}

void submit(Scheduler& scheduler, std::uint64_t id, std::size_t prompt, std::uint32_t answer) {
  Request request;
  request.id = RequestId(id);
  request.prompt.assign(prompt, static_cast<std::int64_t>(id + 1));
  request.max_tokens = answer;
  request.arrival = TimePoint(std::chrono::microseconds(id));
  ASSERT_TRUE(scheduler.submit(request));
}

struct Measured {
  double tokens_per_second = 0;
  std::vector<double> use;
  PipelineShape shape;
};

/// `sequences` decode side by side over a chain, the pipeline shaped by what it learns.
Measured decode(const std::vector<double>& shares, std::vector<double> links,
                std::uint32_t sequences, double seconds) {
  Scheduler scheduler(options(sequences));
  std::vector<spec::StepCost> stages;
  for (const double share : shares) stages.push_back(part(share));
  PipelineController controller(stages.size(), {});
  TimedChain chain(scheduler, stages, std::move(links));
  chain.controller = &controller;
  for (std::uint32_t id = 1; id <= sequences; ++id) submit(scheduler, id, 8, 4000);
  // Until it has learned.
  chain.run_until(seconds * 1e6);
  const double begin = chain.now_us();
  const std::vector<double> busy = chain.busy_us();
  const std::uint64_t tokens = chain.tokens();
  chain.run_until(begin + seconds * 1e6);
  Measured measured;
  measured.tokens_per_second =
      static_cast<double>(chain.tokens() - tokens) * 1e6 / (chain.now_us() - begin);
  measured.use = chain.use_since(begin, busy);
  measured.shape = controller.shape(sequences);
  return measured;
}

TEST(ForecastTest, TheFormula) {
  const ChainTimes times = {{part(0.5), part(0.5)}, 0, 0};
  const PipelineForecast one = forecast(times, {16, 0}, 1, 512);
  EXPECT_DOUBLE_EQ(one.cycle_us, 27900);
  EXPECT_DOUBLE_EQ(one.stage_use[0], 0.5);
  const PipelineForecast two = forecast(times, {16, 0}, 2, 512);
  EXPECT_DOUBLE_EQ(two.cycle_us, 17700);
  EXPECT_DOUBLE_EQ(two.tokens_per_second, 16e6 / 17700);
  EXPECT_DOUBLE_EQ(two.stage_use[1], 1.0);
}

TEST(ForecastTest, OfTwoNoisyTimesTheLargerOneCounts) {
  ChainTimes times = {{part(0.5), part(0.5)}, 0, 0};
  times.jitter = 0.1;
  // Two groups of eight: both times have the mean 17.7 ms and the variance of two steps.
  const double spread = std::hypot(885 * std::sqrt(2), 885 * std::sqrt(2));
  EXPECT_NEAR(forecast(times, {16, 0}, 2, 512).cycle_us, 17700 + spread / std::sqrt(2 * M_PI), 1);
  // With four groups the way is so much shorter that it does not matter.
  EXPECT_NEAR(forecast(times, {16, 0}, 4, 512).cycle_us, 4 * 12900 / 2, 1);
}

TEST(ChooseShapeTest, FewGroupsNearbyMoreFarAway) {
  ChainTimes times = {{part(0.5), part(0.5)}, 0, 0};
  EXPECT_EQ(choose_shape(times, {1, 0}, {}).groups, 1U);
  EXPECT_EQ(choose_shape(times, {16, 0}, {}).groups, 2U);
  times.round_trip_us = 100000;
  EXPECT_GT(choose_shape(times, {64, 0}, {}).groups, 3U);
  times = {{part(1)}, 0, 0};
  EXPECT_EQ(choose_shape(times, {16, 0}, {}).groups, 1U);
  // Prompts fill the gaps that more groups would.
  times = {{part(0.5), part(0.5)}, 100000, 0};
  EXPECT_LE(choose_shape(times, {64, 32}, {}).groups, 2U);
  // Unknown times: something that works.
  const PipelineShape first = choose_shape({{{}, {}}, 0, 0}, {4, 0}, {});
  EXPECT_GE(first.groups, 1U);
  EXPECT_GE(first.steps_in_flight, 2U);
  EXPECT_EQ(first.step_tokens, 512U);
}

TEST(ChooseShapeTest, ChunksFollowStagesAndLinks) {
  const PipelineLoad prompts = {8, 200};
  ChainTimes times = {{part(0.5), part(0.5)}, 0, 0};
  EXPECT_EQ(choose_shape(times, prompts, {}).step_tokens, 512U);
  EXPECT_EQ(choose_shape(times, {8, 32}, {}).step_tokens, 256U)
      << "two groups, but a row of 128 is much dearer";
  times.stages = {part(2), part(2)};
  EXPECT_EQ(choose_shape(times, prompts, {}).step_tokens, 128U);
  times.link_row_us = 5000;  // a row of a step takes 5 ms on the links
  EXPECT_EQ(choose_shape(times, prompts, {}).step_tokens, 32U);
  times.link_row_us = 1e9;
  EXPECT_EQ(choose_shape(times, prompts, {}).step_tokens, 32U);
}

TEST(PipelineControllerTest, LearnsTimesLinksAndUse) {
  PipelineController controller(2, {});
  for (int i = 0; i < 200; ++i) {
    for (const std::uint32_t rows : {1U, 8U, 512U}) {
      controller.observe_stage(0, rows, part(0.4).us(rows));
      controller.observe_stage(1, rows, part(0.6).us(rows));
      controller.observe_cycle(rows, 100000 + whole_us(rows), whole_us(rows));
    }
  }
  EXPECT_NEAR(controller.times().slowest_us(8), 0.6 * whole_us(8), 1);
  EXPECT_NEAR(controller.times().round_trip_us, 100000, 1);
  EXPECT_NEAR(controller.step_cost(1).us(1), 100000 + whole_us(1), 1);
  const double all = whole_us(1) + whole_us(8) + whole_us(512);
  const std::vector<double> use = controller.take_use(200 * all);
  EXPECT_NEAR(use[0], 0.4, 1e-9);
  EXPECT_NEAR(use[1], 0.6, 1e-9);
  EXPECT_EQ(controller.take_use(1)[0], 0.0);
  // A measurement that says that more rows cost less is not believed.
  controller.observe_stage(0, 16, 1);
  EXPECT_GE(controller.times().stages[0].us(16), controller.times().stages[0].us(8));
}

TEST(PipelineControllerTest, TellsLatencyFromBandwidth) {
  PipelineController controller(2, {});
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const std::uint32_t rows = i % 10 == 0 ? 256 : 1 + i % 7;
    const double noise = static_cast<double>(random() % 1000);
    controller.observe_cycle(rows, 20000 + 300.0 * rows + noise + 5000, 5000);
  }
  EXPECT_NEAR(controller.times().link_row_us, 300, 10);
  EXPECT_NEAR(controller.times().round_trip_us, 20500, 1000);
  // Steps of one size tell nothing of it.
  PipelineController alike(2, {});
  for (int i = 0; i < 400; ++i) alike.observe_cycle(8, 20000 + i % 5 * 100, 5000);
  EXPECT_EQ(alike.times().link_row_us, 0);
  EXPECT_NEAR(alike.times().round_trip_us, 15200, 200);
}

TEST(LineFitTest, FollowsALineThatChanges) {
  LineFit fit;
  EXPECT_EQ(fit.slope(), 0);
  for (int i = 0; i < 50; ++i) fit.observe(i % 20, 3 + 2.0 * (i % 20));
  EXPECT_NEAR(fit.slope(), 2, 1e-9);
  for (int i = 0; i < 2000; ++i) fit.observe(i % 20, 3 - 1.0 * (i % 20));
  EXPECT_NEAR(fit.slope(), -1, 0.02);
}

TEST(BubbleTest, EqualStagesAreAlwaysBusy) {
  for (const std::uint32_t sequences : {4U, 8U, 16U, 32U}) {
    const Measured measured = decode({0.5, 0.5}, {0, 0, 0}, sequences, 20);
    SCOPED_TRACE(fmt::format("{} sequences, use {}", sequences, measured.use));
    EXPECT_GE(measured.use[0], 0.97);
    EXPECT_GE(measured.use[1], 0.97);
    // What batching leaves: N tokens while a stage computes its half of both groups.
    EXPECT_GE(measured.tokens_per_second, 0.97 * sequences * 1e6 / whole_us(sequences / 2.0));
  }
}

/// Tokens per second of 16 sequences on two equal stages whose times vary by a tenth, with kernels
/// that work in tiles of four rows.
double decode_with_noise(const std::optional<PipelineShape>& fixed) {
  Scheduler scheduler(options(16));
  const spec::StepCost stage = {
      {{1, 9350}, {2, 10600}, {4, 13400}, {5, 21750}, {8, 25900}, {12, 31500}, {16, 37000}}};
  PipelineController controller(2, {});
  TimedChain chain(scheduler, {stage, stage}, {50, 250, 250});
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1, 0.1);
  chain.noise = [&] { return std::max(0.5, noise(random)); };
  if (fixed) {
    scheduler.set_pipeline(*fixed);
  } else {
    chain.controller = &controller;
  }
  for (std::uint32_t id = 1; id <= 16; ++id) submit(scheduler, id, 8, 4000);
  chain.run_until(10e6);
  const double begin = chain.now_us();
  const std::uint64_t tokens = chain.tokens();
  chain.run_until(begin + 30e6);
  return static_cast<double>(chain.tokens() - tokens) * 1e6 / (chain.now_us() - begin);
}

TEST(BubbleTest, MoreGroupsWhereTimesVary) {
  const double two = decode_with_noise(PipelineShape{2, 40, 512, 512});
  const double four = decode_with_noise(PipelineShape{4, 40, 512, 512});
  const double learned = decode_with_noise({});
  SCOPED_TRACE(fmt::format("two groups {:.1f}, four {:.1f}, learned {:.1f}", two, four, learned));
  EXPECT_GT(four, 1.01 * two);
  EXPECT_GT(learned, 0.98 * four);
}

TEST(BubbleTest, OfUnevenStagesTheSlowestIsBusyAndTheOthersInProportion) {
  const Measured measured = decode({0.2, 0.5, 0.3}, {0, 300, 300, 300}, 24, 20);
  SCOPED_TRACE(fmt::format("use {}, {} groups", measured.use, measured.shape.groups));
  EXPECT_GE(measured.use[1], 0.96);
  EXPECT_NEAR(measured.use[0], 0.4 * measured.use[1], 0.02);
  EXPECT_NEAR(measured.use[2], 0.6 * measured.use[1], 0.02);
}

TEST(BubbleTest, SlowLinksAreFilledWithMoreGroups) {
  for (const std::uint32_t sequences : {8U, 32U, 64U}) {
    const Measured far = decode({0.5, 0.5}, {0, 50000, 50000}, sequences, 60);
    double best = 0;
    for (std::uint32_t groups = 1; groups <= sequences; ++groups) {
      const double size = static_cast<double>(sequences) / groups;
      const double cycle = std::max(groups * whole_us(size) / 2, whole_us(size) + 100000);
      best = std::max(best, sequences * 1e6 / cycle);
    }
    SCOPED_TRACE(fmt::format("{} sequences: {} groups, {:.0f} of {:.0f} tokens/s, use {}",
                             sequences, far.shape.groups, far.tokens_per_second, best, far.use));
    EXPECT_GE(far.tokens_per_second, 0.95 * best);
  }
}

/// Clients that each have one request at a time: about 512 tokens in, 16 out. All equal, they would
/// fall into step, and one row more or less would decide.
Measured serve(const std::vector<double>& shares, double link_us, std::uint32_t clients,
               const std::optional<PipelineShape>& fixed = {}) {
  Scheduler scheduler(options(clients));
  std::vector<spec::StepCost> stages;
  for (const double share : shares) stages.push_back(part(share));
  std::vector<double> links(shares.size() + 1, link_us);
  links[0] = 0;
  PipelineController controller(stages.size(), {});
  TimedChain chain(scheduler, stages, links);
  if (fixed) {
    scheduler.set_pipeline(*fixed);
  } else {
    chain.controller = &controller;
  }
  std::mt19937 random(1);
  const auto submit_next = [&](std::uint64_t id) {
    const std::size_t prompt = 384 + random() % 257;
    submit(scheduler, id, prompt, static_cast<std::uint32_t>(12 + random() % 9));
  };
  std::uint64_t ended = 0;
  std::uint64_t last = clients;
  chain.on_progress = [&](const Progress& progress) {
    if (!progress.is_finished) return;
    ++ended;
    submit_next(++last);
  };
  for (std::uint64_t id = 1; id <= clients; ++id) submit_next(id);
  chain.run_until(20e6);
  const double begin = chain.now_us();
  const std::vector<double> busy = chain.busy_us();
  const std::uint64_t before = ended;
  chain.run_until(begin + 60e6);
  Measured measured;
  measured.tokens_per_second =
      static_cast<double>(ended - before) * 16e6 / (chain.now_us() - begin);
  measured.use = chain.use_since(begin, busy);
  measured.shape = controller.shape(clients);
  return measured;
}

/// The best of shapes that stay as they are, in tokens per second.
double best_fixed(const std::vector<double>& shares, double link_us, std::uint32_t clients) {
  double best = 0;
  for (const std::uint32_t rows : {128U, 256U, 512U}) {
    for (const std::uint32_t groups : {1U, 2U, 4U}) {
      for (const std::uint32_t chunks : {2U, 3U, 4U}) {
        const PipelineShape shape = {groups, 40, rows, chunks * rows};
        best = std::max(best, serve(shares, link_us, clients, shape).tokens_per_second);
      }
    }
  }
  return best;
}

TEST(BubbleTest, WithPromptsTheLearnedShapeIsNearTheBestFixedOne) {
  for (const std::uint32_t clients : {8U, 32U}) {
    for (const double link : {0.0, 50000.0}) {
      const Measured learned = serve({0.5, 0.5}, link, clients);
      const double best = best_fixed({0.5, 0.5}, link, clients);
      SCOPED_TRACE(fmt::format("{} clients, link {} us: {:.1f} of {:.1f} tokens/s, use {:.2f}",
                               clients, link, learned.tokens_per_second, best,
                               fmt::join(learned.use, " ")));
      EXPECT_GE(learned.tokens_per_second, (link > 0 ? 0.85 : 0.9) * best);
    }
  }
}

TEST(BubbleTest, PromptsOfManyClientsKeepEveryStageBusy) {
  const Measured two = serve({0.5, 0.5}, 0, 64);
  EXPECT_GE(two.use[0], 0.97);
  EXPECT_GE(two.use[1], 0.97);
  EXPECT_GE(two.tokens_per_second, 1.85 * serve({1}, 0, 64).tokens_per_second);
}

TEST(BubbleTest, OneSequenceTakesOneRoundTripPerToken) {
  const Measured measured = decode({0.5, 0.5}, {0, 50000, 50000}, 1, 20);
  EXPECT_NEAR(measured.tokens_per_second, 1e6 / (100000 + whole_us(1)), 0.1);
}

}  // namespace
}  // namespace paceline::sched
