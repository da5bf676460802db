#include "spec/draft_length.h"

#include <algorithm>

namespace paceline::spec {
namespace {

constexpr double kPriorWeight = 2.0;
/// An outcome counts half after about seven more.
constexpr double kMemory = 0.9;
/// Without trials half is forgotten in 70 steps.
constexpr double kFading = 0.99;

double plain_step_us(const DraftRoom& room, const StepCost& cost) {
  return cost.us(room.other_rows + 1.0);
}

double extra_us(std::uint32_t drafts, const DraftRoom& room, const StepCost& cost) {
  return cost.us(room.other_rows + 1.0 + drafts) + drafts * cost.draft_us -
         plain_step_us(room, cost);
}

}  // namespace

double expected_tokens(double acceptance, std::uint32_t drafts) {
  double sum = 1;
  double power = 1;
  for (std::uint32_t draft = 0; draft < drafts; ++draft) {
    power *= acceptance;
    sum += power;
  }
  return sum;
}

std::uint32_t best_draft_length(double acceptance, const DraftRoom& room, const StepCost& cost,
                                const DraftLengthOptions& options) {
  const double plain = (room.other_tokens + 1.0) / plain_step_us(room, cost);
  double best_rate = plain * options.least_gain;
  std::uint32_t best = 0;
  for (std::uint32_t drafts = 1; drafts <= std::min(options.most, room.most); ++drafts) {
    const double rate = (room.other_tokens + expected_tokens(acceptance, drafts)) /
                        (cost.us(room.other_rows + 1.0 + drafts) + drafts * cost.draft_us);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = drafts;
  }
  return best;
}

double AcceptanceRate::rate() const {
  return (prior_ * kPriorWeight + accepted_) / (kPriorWeight + tested_);
}

void AcceptanceRate::observe(std::uint32_t proposed, std::uint32_t accepted) {
  // Drafts after the first wrong one were not tested.
  const std::uint32_t tested = accepted + (accepted < proposed ? 1 : 0);
  accepted_ = accepted_ * kMemory + accepted;
  tested_ = tested_ * kMemory + tested;
}

void AcceptanceRate::fade() {
  accepted_ *= kFading;
  tested_ *= kFading;
}

bool DraftAccount::affords(std::uint32_t drafts, const DraftRoom& room,
                           const StepCost& cost) const {
  const double allowed =
      options_.slack * plain_us_ + options_.advance_steps * plain_step_us(room, cost);
  return balance_us_ - extra_us(drafts, room, cost) >= -allowed;
}

void DraftAccount::settle(const DraftOutcome& outcome, const StepCost& cost) {
  const double token_us = plain_step_us(outcome.room, cost) / (outcome.room.other_tokens + 1.0);
  balance_us_ += outcome.accepted * token_us - extra_us(outcome.proposed, outcome.room, cost);
  if (!outcome.is_void) plain_us_ += (outcome.accepted + 1.0) * token_us;
}

std::uint32_t choose_draft_length(AcceptanceRate& rate, const DraftAccount& account,
                                  const DraftRoom& room, const StepCost& cost,
                                  const DraftLengthOptions& options) {
  std::uint32_t count = best_draft_length(rate.rate(), room, cost, options);
  while (count > 0 && !account.affords(count, room, cost)) --count;
  if (count == 0) rate.fade();
  return count;
}

}  // namespace paceline::spec
