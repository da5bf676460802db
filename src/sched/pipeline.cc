#include "sched/pipeline.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace paceline::sched {
namespace {

/// A new observation's weight: about ten steps are remembered.
constexpr double kNew = 0.1;

/// Of links: steps that are remembered, how many tell something, and how far apart their rows are
/// then at least.
constexpr double kRemembered = 200;
constexpr double kFewest = 8;
constexpr double kLeastSpread = 4;

/// Per step; fewer decodes than this are counted as so many.
constexpr double kRareDecodes = 0.01;
/// What a row of a smaller chunk may cost, against one of the largest.
constexpr double kDearer = 1.08;
/// Chunks are multiples of it.
constexpr double kChunkTokens = 32;

struct Normal {
  double mean = 0;
  double deviation = 0;
};

/// Of two independent variables (C. E. Clark, The greatest of a finite set of random variables,
/// 1961).
double mean_of_larger(const Normal& a, const Normal& b) {
  const double spread = std::hypot(a.deviation, b.deviation);
  if (spread <= 0) return std::max(a.mean, b.mean);
  const double distance = (a.mean - b.mean) / spread;
  const double below = std::erfc(-distance / std::numbers::sqrt2) / 2;
  const double density =
      std::exp(-distance * distance / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return a.mean * below + b.mean * (1 - below) + spread * density;
}

/// The steps in which each sequence gets a token.
struct Cycle {
  double rows = 1;  ///< of most steps
  double full = 1;  ///< how many these are
  double rest = 0;  ///< rows of one step more, 0: there is none

  double steps() const { return full + (rest > 0 ? 1 : 0); }
  double us(const spec::StepCost& stage) const {
    return full * stage.us(rows) + (rest > 0 ? stage.us(rest) : 0);
  }
};

/// As StepPlanner shares sequences out: each group as many as the largest must have.
Cycle cycle_of(const PipelineLoad& load, std::uint32_t groups, std::uint32_t step_tokens) {
  const std::uint32_t sequences = std::max(1U, load.sequences);
  const std::uint32_t share = (sequences + groups - 1) / groups;
  const std::uint32_t used = (sequences + share - 1) / share;
  const double prompt_rows = sequences * load.prompt_rows;
  const double rows = sequences + prompt_rows;
  const auto most = static_cast<double>(step_tokens);
  if (rows > used * most) return {most, rows / most, 0};
  const double prompts = prompt_rows / used;
  const std::uint32_t full = sequences / share;
  const std::uint32_t rest = sequences % share;
  return {share + prompts, static_cast<double>(full), rest > 0 ? rest + prompts : 0};
}

/// Steps that are short enough for others to wait behind.
std::uint32_t largest_step(const ChainTimes& times, const PipelineOptions& options) {
  std::uint32_t rows = options.most_step_tokens;
  // Nothing is known of steps that large before one was seen: begin with the most.
  while (rows > options.least_step_tokens &&
         times.slowest_us(rows) + times.link_row_us * rows > options.most_stall_us) {
    rows = std::max(options.least_step_tokens, rows / 2);
  }
  return rows;
}

/// The smallest step whose rows are not much dearer than those of `largest`.
std::uint32_t smallest_chunk(const ChainTimes& times, std::uint32_t largest,
                             const PipelineOptions& options) {
  const double most = kDearer * times.slowest_us(largest) / largest;
  std::uint32_t rows = largest;
  while (rows / 2 >= options.least_step_tokens && times.slowest_us(rows / 2) / (rows / 2) <= most) {
    rows /= 2;
  }
  return rows;
}

}  // namespace

double ChainTimes::slowest_us(double rows) const {
  double slowest = 1;
  for (const spec::StepCost& stage : stages) slowest = std::max(slowest, stage.us(rows));
  return slowest;
}

double ChainTimes::way_us(double rows) const {
  double sum = round_trip_us + link_row_us * rows;
  for (const spec::StepCost& stage : stages) sum += stage.us(rows);
  return sum;
}

PipelineForecast forecast(const ChainTimes& times, const PipelineLoad& load, std::uint32_t groups,
                          std::uint32_t step_tokens) {
  const Cycle cycle = cycle_of(load, groups, step_tokens);
  PipelineForecast result;
  result.rows = cycle.rows;
  double busiest = 1;
  for (const spec::StepCost& stage : times.stages) {
    result.stage_use.push_back(cycle.us(stage));
    busiest = std::max(busiest, result.stage_use.back());
  }
  const double way = times.way_us(cycle.rows);
  const double computing = way - times.round_trip_us - times.link_row_us * cycle.rows;
  const auto stages = static_cast<double>(std::max<std::size_t>(1, times.stages.size()));
  // Of independent steps the variances add up. A single stage waits for nobody.
  const double jitter = stages > 1 ? times.jitter : 0;
  result.cycle_us = mean_of_larger({busiest, jitter * busiest / std::sqrt(cycle.steps())},
                                   {way, jitter * computing / std::sqrt(stages)});
  result.tokens_per_second = std::max(1U, load.sequences) * 1e6 / result.cycle_us;
  for (double& use : result.stage_use) use = std::min(1.0, use / result.cycle_us);
  return result;
}

PipelineShape choose_shape(const ChainTimes& times, const PipelineLoad& load,
                           const PipelineOptions& options) {
  PipelineShape shape;
  shape.steps_in_flight = options.most_steps_in_flight;
  shape.step_tokens = largest_step(times, options);
  const std::uint32_t most =
      std::min({options.most_groups, options.most_steps_in_flight, std::max(1U, load.sequences)});
  // Prompts come in lumps: between them decodes alone must fill every stage, and more groups must
  // do them no harm.
  const auto stages = static_cast<std::uint32_t>(times.stages.size());
  const PipelineLoad decodes = {load.sequences, 0};
  // With less than a row of prompts for each stage most steps have none.
  const bool has_prompts = load.sequences * load.prompt_rows >= stages;
  const PipelineLoad& usual = has_prompts ? load : decodes;
  shape.groups = has_prompts ? std::min(most, stages) : 1;
  double best = 0;
  double best_alone = 0;
  double even = 0;  // rows of a step
  for (std::uint32_t groups = shape.groups; groups <= most; ++groups) {
    const PipelineForecast next = forecast(times, usual, groups, shape.step_tokens);
    if (next.tokens_per_second < best * options.least_gain) continue;
    const double alone = forecast(times, decodes, groups, shape.step_tokens).tokens_per_second;
    if (alone < best_alone) continue;
    best = next.tokens_per_second;
    best_alone = alone;
    even = next.rows;
    shape.groups = groups;
  }
  // Prompts spread evenly over the steps leave fewer bubbles than long chunks with short steps
  // between them, and go through several stages at a time.
  shape.step_tokens =
      std::clamp(static_cast<std::uint32_t>(kChunkTokens * std::round(even / kChunkTokens)),
                 smallest_chunk(times, shape.step_tokens, options), shape.step_tokens);
  // As many chunks as are on the way while the slowest stage computes one, and one that waits for
  // it. A little more than a whole number is noise.
  const double rows = shape.step_tokens;
  const double chunks = std::ceil(times.way_us(rows) / times.slowest_us(rows) - 0.1) + 1;
  shape.prompt_tokens_in_flight =
      static_cast<std::uint32_t>(rows * std::min<double>(chunks, options.most_steps_in_flight));
  return shape;
}

PipelineController::PipelineController(std::size_t stages, const PipelineOptions& options)
    : options_(options), learned_(stages), busy_us_(stages, 0) {
  PACELINE_CHECK(stages > 0);
  times_.stages.resize(stages);
}

void PipelineController::observe_stage(std::size_t stage, std::uint32_t rows, double compute_us) {
  PACELINE_CHECK(stage < learned_.size());
  busy_us_[stage] += compute_us;
  if (rows == 0) return;
  learned_[stage].observe(rows, compute_us);
  times_.stages[stage] = learned_[stage].cost();
  times_.jitter = 0;
  for (const LearnedCost& cost : learned_) times_.jitter = std::max(times_.jitter, cost.jitter());
}

void LineFit::observe(double x, double y) {
  // A plain mean until as many are known as are remembered.
  count_ = std::min(count_ + 1, kRemembered);
  const double weight = 1 / count_;
  const double dx = x - mean_x_;
  const double dy = y - mean_y_;
  mean_x_ += weight * dx;
  mean_y_ += weight * dy;
  square_ += weight * (dx * (x - mean_x_) - square_);
  product_ += weight * (dx * (y - mean_y_) - product_);
}

double LineFit::slope() const {
  const double spread = std::sqrt(square_);
  if (count_ < kFewest || spread < kLeastSpread) return 0;
  return product_ / square_;
}

void PipelineController::observe_cycle(std::uint32_t rows, double cycle_us, double stages_us) {
  links_.observe(rows, std::max(0.0, cycle_us - stages_us));
  times_.link_row_us = std::max(0.0, links_.slope());
  const double links = std::max(0.0, cycle_us - stages_us - times_.link_row_us * rows);
  times_.round_trip_us += (knows_links_ ? kNew : 1.0) * (links - times_.round_trip_us);
  knows_links_ = true;
}

void PipelineController::observe_load(std::uint32_t prompt_rows, std::uint32_t decode_rows) {
  prompt_rows_ += kNew / 10 * (prompt_rows - prompt_rows_);
  decode_rows_ += kNew / 10 * (decode_rows - decode_rows_);
}

PipelineShape PipelineController::shape(std::uint32_t sequences) const {
  PipelineLoad load;
  load.sequences = sequences;
  load.prompt_rows = prompt_rows_ / std::max(decode_rows_, kRareDecodes);
  return choose_shape(times_, load, options_);
}

spec::StepCost PipelineController::step_cost(std::uint32_t groups) const {
  spec::StepCost cost;
  for (double rows = 1; rows <= options_.most_step_tokens; rows *= 2) {
    cost.points.push_back({rows, std::max(groups * times_.slowest_us(rows), times_.way_us(rows))});
  }
  return cost;
}

std::vector<double> PipelineController::take_use(double elapsed_us) {
  std::vector<double> use;
  for (double& busy : busy_us_) {
    use.push_back(elapsed_us > 0 ? busy / elapsed_us : 0);
    busy = 0;
  }
  return use;
}

}  // namespace paceline::sched
