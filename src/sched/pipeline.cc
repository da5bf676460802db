#include "sched/pipeline.h"

#include <algorithm>
#include <bit>
#include <cmath>

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
constexpr double kDearer = 1.1;

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
  PipelineForecast result;
  const double sequences = std::max(1U, load.sequences);
  const double used = std::min<double>(groups, sequences);
  const double prompt_rows = sequences * load.prompt_rows;
  const double steps = std::max(used, (sequences + prompt_rows) / step_tokens);
  const double rows = (sequences + prompt_rows) / steps;
  result.rows = rows;
  const double largest = std::ceil(sequences / used) + prompt_rows / steps;
  result.cycle_us = std::max(steps * times.slowest_us(rows), times.way_us(largest));
  result.tokens_per_second = sequences * 1e6 / result.cycle_us;
  for (const spec::StepCost& stage : times.stages) {
    result.stage_use.push_back(std::min(1.0, steps * stage.us(rows) / result.cycle_us));
  }
  return result;
}

PipelineShape choose_shape(const ChainTimes& times, const PipelineLoad& load,
                           const PipelineOptions& options) {
  PipelineShape shape;
  shape.steps_in_flight = options.most_steps_in_flight;
  shape.step_tokens = largest_step(times, options);
  const std::uint32_t most =
      std::min({options.most_groups, options.most_steps_in_flight, std::max(1U, load.sequences)});
  PipelineForecast best;
  // Prompts come in lumps: between them decodes alone must be able to fill every stage.
  const auto stages = static_cast<std::uint32_t>(times.stages.size());
  shape.groups = load.prompt_rows > 0 ? std::min(most, stages) : 1;
  for (std::uint32_t groups = shape.groups; groups <= most; ++groups) {
    const PipelineForecast next = forecast(times, load, groups, shape.step_tokens);
    if (next.tokens_per_second < best.tokens_per_second * options.least_gain) continue;
    best = next;
    shape.groups = groups;
  }
  // Prompts spread evenly over the steps leave fewer bubbles than long chunks with short steps
  // between them, and go through several stages at a time.
  shape.step_tokens =
      std::clamp(std::bit_floor(static_cast<std::uint32_t>(best.rows)),
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
    : options_(options), means_(stages), busy_us_(stages, 0) {
  PACELINE_CHECK(stages > 0);
  times_.stages.resize(stages);
}

void PipelineController::observe_stage(std::size_t stage, std::uint32_t rows, double compute_us) {
  PACELINE_CHECK(stage < means_.size());
  busy_us_[stage] += compute_us;
  if (rows == 0) return;
  Mean& mean = means_[stage][static_cast<std::uint32_t>(std::bit_width(rows))];
  const double weight = mean.rows > 0 ? kNew : 1.0;
  mean.rows += weight * (rows - mean.rows);
  mean.us += weight * (compute_us - mean.us);
  std::vector<spec::StepCost::Point>& points = times_.stages[stage].points;
  points.clear();
  // Smaller steps than any seen may be as cheap as their rows: believing it has them tried, and
  // then they are measured. Believing that they cost as much would keep every chain at one group.
  const Mean& smallest = means_[stage].begin()->second;
  if (smallest.rows > 1) points.push_back({1, smallest.us / smallest.rows});
  for (const auto& [size, seen] : means_[stage]) {
    // More rows never cost less: what says so is noise.
    const double least = points.empty() ? 0 : points.back().us;
    points.push_back({seen.rows, std::max(seen.us, least)});
  }
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
