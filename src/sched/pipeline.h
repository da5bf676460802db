// How many steps should be in flight: measured times in, PipelineShape out.
//
// N sequences in G groups over a chain give N tokens per cycle. A cycle lasts as long as the
// slowest stage needs for all groups, or as one group needs for the whole way there and back,
// whichever is more: max(G max_s T_s(N/G), sum_s T_s(N/G) + round trip). Few groups are large and
// leave stages idle; many are small, and a small step costs nearly as much as a large one. Uneven
// stages are in the formula: only the slowest one counts against G. Where both are nearly the same,
// as with one group per stage, each delay of either makes all wait: then the cycle is the mean of
// the larger one of two noisy times.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/learned_cost.h"
#include "sched/scheduler.h"
#include "spec/step_cost.h"

namespace paceline::sched {

/// What the parts of a chain take, in microseconds.
struct ChainTimes {
  std::vector<spec::StepCost> stages;  ///< by a step's rows
  double round_trip_us = 0;            ///< all links of a cycle, there and back
  double link_row_us = 0;              ///< of all links, per row of a step
  double jitter = 0;                   ///< standard deviation of a step's time, as a share of it

  double slowest_us(double rows) const;  ///< of the stages
  double way_us(double rows) const;      ///< through all stages and links
};

/// What the chain is asked to do.
struct PipelineLoad {
  std::uint32_t sequences = 1;  ///< that decode or wait for a place to
  double prompt_rows = 0;       ///< computed for each token that is decoded
};

struct PipelineForecast {
  double rows = 0;      ///< of a step
  double cycle_us = 0;  ///< in which each sequence gets a token
  double tokens_per_second = 0;
  std::vector<double> stage_use;  ///< the share of the time that each stage computes
};
/// Decodes in `groups` groups, prompts in steps of at most `step_tokens` rows with and between
/// them.
PipelineForecast forecast(const ChainTimes& times, const PipelineLoad& load, std::uint32_t groups,
                          std::uint32_t step_tokens);

struct PipelineOptions {
  std::uint32_t most_groups = 32;
  std::uint32_t most_steps_in_flight = 48;  ///< a stage remembers the results of 64 steps
  std::uint32_t least_step_tokens = 32;
  std::uint32_t most_step_tokens = 512;
  /// How long a decode may have to wait behind a chunk of somebody's prompt.
  double most_stall_us = 250000;
  /// More groups must give at least this many times the tokens: they also make a cycle longer.
  double least_gain = 1.005;
};

/// The shape with the most tokens per second.
PipelineShape choose_shape(const ChainTimes& times, const PipelineLoad& load,
                           const PipelineOptions& options);

/// A line through measured points, of which older ones fade. Thread-compatible.
class LineFit {
 public:
  void observe(double x, double y);
  /// 0 where the points do not tell: too few, or all at nearly one x.
  double slope() const;

 private:
  double count_ = 0;
  double mean_x_ = 0;
  double mean_y_ = 0;
  double square_ = 0;   ///< of deviations in x, mean
  double product_ = 0;  ///< of deviations in x and y, mean
};

/// Learns the times from steps as they come back. Thread-compatible.
class PipelineController {
 public:
  PipelineController(std::size_t stages, const PipelineOptions& options);

  /// A stage computed a step of `rows` rows.
  void observe_stage(std::size_t stage, std::uint32_t rows, double compute_us);
  /// A step was away for `cycle_us`, of which it was computed or waited in stages' queues for
  /// `stages_us`; the rest are the links, whose latency and cost per row (bandwidth) are told apart
  /// by steps of different sizes.
  void observe_cycle(std::uint32_t rows, double cycle_us, double stages_us);

  /// A step had so many rows of prompts, and of decodes.
  void observe_load(std::uint32_t prompt_rows, std::uint32_t decode_rows);

  const ChainTimes& times() const { return times_; }
  /// For so many sequences and the prompts of late.
  PipelineShape shape(std::uint32_t sequences) const;
  /// What a step costs all who are in it, for draft lengths.
  spec::StepCost step_cost(std::uint32_t groups) const;
  /// Of each stage, the share of the last `elapsed_us` that it computed; counts anew from now. What
  /// is missing to 1 are bubbles.
  std::vector<double> take_use(double elapsed_us);

 private:
  const PipelineOptions options_;
  ChainTimes times_;
  std::vector<LearnedCost> learned_;  ///< of each stage
  std::vector<double> busy_us_;
  double prompt_rows_ = 0;  ///< of late
  double decode_rows_ = 0;
  LineFit links_;
  bool knows_links_ = false;
};

}  // namespace paceline::sched
