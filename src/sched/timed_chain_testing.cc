#include "sched/timed_chain_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace paceline::sched {

TimedChain::TimedChain(Scheduler& scheduler, std::vector<spec::StepCost> stages,
                       std::vector<double> link_us)
    : scheduler_(scheduler),
      stages_(std::move(stages)),
      link_us_(std::move(link_us)),
      free_us_(stages_.size(), 0),
      busy_us_(stages_.size(), 0) {}

void TimedChain::send(const StepPlan& step) {
  Sent sent;
  sent.id = step.id;
  sent.samples = step.samples();
  sent.rows = step.rows();
  for (const PlannedRows& rows : step.sequences) {
    if (rows.tokens.size() == 1 + rows.drafts) sent.decode_rows += 1 + rows.drafts;
  }
  sent.sent_us = now_us_;
  double at = now_us_;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const double arrival = at + link_us_[stage];
    double compute = sent.rows > 0 ? stages_[stage].us(sent.rows) : 0;
    if (noise) compute *= noise();
    at = std::max(arrival, free_us_[stage]) + compute;
    free_us_[stage] = at;
    busy_us_[stage] += compute;
    sent.compute_us.push_back(compute);
    sent.in_stages_us += at - arrival;
  }
  sent.back_us = at + link_us_.back();
  sent_.push_back(std::move(sent));
}

void TimedChain::learn(const Sent& sent) {
  if (controller == nullptr || sent.rows == 0) return;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    controller->observe_stage(stage, sent.rows, sent.compute_us[stage]);
  }
  controller->observe_load(sent.rows - sent.decode_rows, sent.decode_rows);
  controller->observe_cycle(sent.rows, sent.back_us - sent.sent_us, sent.in_stages_us);
  const SchedulerStats stats = scheduler_.stats();
  most_running_ = std::max(most_running_, stats.running);
  const std::size_t sequences = std::min(most_running_, stats.running + stats.waiting);
  scheduler_.set_pipeline(controller->shape(static_cast<std::uint32_t>(sequences)));
}

bool TimedChain::advance() {
  while (const auto step = scheduler_.plan(now())) {
    if (on_plan) on_plan(*step);
    send(*step);
  }
  if (sent_.empty()) return false;
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  now_us_ = std::max(now_us_, sent.back_us);
  learn(sent);
  const std::vector<std::int64_t> sampled(sent.samples, 1);
  const auto all = scheduler_.commit(sent.id, sampled);
  EXPECT_TRUE(all) << (all ? "" : all.error().message());
  prompt_rows_ += sent.rows - std::min<std::size_t>(sent.rows, sent.samples);
  for (const Progress& progress : *all) {
    tokens_ += progress.tokens.size();
    if (on_progress) on_progress(progress);
  }
  return true;
}

void TimedChain::run_until(double us) {
  while (now_us_ < us && advance()) {
  }
}

std::vector<double> TimedChain::use_since(double since_us,
                                          const std::vector<double>& busy_before) const {
  std::vector<double> use;
  for (std::size_t stage = 0; stage < busy_us_.size(); ++stage) {
    use.push_back((busy_us_[stage] - busy_before[stage]) / (now_us_ - since_us));
  }
  return use;
}

}  // namespace paceline::sched
