// An event simulation of a chain's time, for tests: stages with queues, links with delays, and the
// real scheduler in front.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "sched/pipeline.h"
#include "sched/scheduler.h"

namespace paceline::sched {

class TimedChain {
 public:
  /// `link_us[i]`: to stage i; the last one: from the last stage back.
  TimedChain(Scheduler& scheduler, std::vector<spec::StepCost> stages, std::vector<double> link_us);

  /// Plans whatever can be planned now, then waits for the next result and commits it. False where
  /// nothing is in flight.
  bool advance();
  void run_until(double us);

  double now_us() const { return now_us_; }
  TimePoint now() const {
    return TimePoint(std::chrono::microseconds(static_cast<std::int64_t>(now_us_)));
  }
  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t prompt_rows() const { return prompt_rows_; }
  const std::vector<double>& busy_us() const { return busy_us_; }
  /// Shares of the time since `since_us` that stages computed, given busy_us() as it was then.
  std::vector<double> use_since(double since_us, const std::vector<double>& busy_before) const;

  /// Called with what each step brought.
  std::function<void(const Progress&)> on_progress;
  std::function<void(const StepPlan&)> on_plan;
  /// Where it is given: each step's time at a stage is multiplied with what it gives.
  std::function<double()> noise;
  /// Learns from each step where it is given, and shapes the pipeline.
  PipelineController* controller = nullptr;

 private:
  struct Sent {
    StepId id;
    std::size_t samples = 0;
    std::uint32_t rows = 0;
    std::uint32_t decode_rows = 0;
    double sent_us = 0;
    double back_us = 0;
    double in_stages_us = 0;  ///< computing and queueing
    std::vector<double> compute_us;
  };

  void send(const StepPlan& step);
  void learn(const Sent& sent);

  Scheduler& scheduler_;
  const std::vector<spec::StepCost> stages_;
  const std::vector<double> link_us_;
  std::vector<double> free_us_;  ///< when each stage is done with what it has
  std::vector<double> busy_us_;
  std::deque<Sent> sent_;
  std::size_t most_running_ = 0;
  double now_us_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t prompt_rows_ = 0;
};

}  // namespace paceline::sched
