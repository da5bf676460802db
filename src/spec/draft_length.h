// How many drafts to verify in a step: as many as pay, none where they do not.
//
// With acceptance rate a per draft, k drafts give E(k) = 1 + a + ... + a^k tokens where none give
// one (Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding",
// 2023), and the step costs C(rows + k) instead of C(rows), for all sequences in it. So k is the
// one with the most tokens per time, (others + E(k)) / C(rows + k). Over a slow link C hardly
// depends on k; in a step that computes at its limit, k rows cost what k other sequences would have
// got.
//
// The rate is a guess, and text changes: an account of time lost and won bounds what wrong guesses
// may cost, whatever is accepted.
#pragma once

#include <cstdint>

#include "spec/draft_source.h"
#include "spec/step_cost.h"

namespace paceline::spec {

struct DraftLengthOptions {
  std::uint32_t most = 16;
  double least_gain = 1.02;    ///< fewer tokens per time than this times none: no drafts
  double slack = 0.02;         ///< the share of the time without drafts that may be lost for good
  double advance_steps = 0.5;  ///< and so many steps' time, or nothing could ever be tried
};

/// E(k): tokens expected from `drafts` drafts, the one that needs no draft included.
double expected_tokens(double acceptance, std::uint32_t drafts);

/// The number of drafts with the most tokens per time; 0 where none reaches `least_gain`.
std::uint32_t best_draft_length(double acceptance, const DraftRoom& room, const StepCost& cost,
                                const DraftLengthOptions& options);

/// The acceptance rate of a line's drafts of one kind. Older outcomes fade.
class AcceptanceRate {
 public:
  /// `prior`: what is believed before anything was seen, worth two drafts.
  explicit AcceptanceRate(double prior) : prior_(prior) {}

  double rate() const;
  void observe(std::uint32_t proposed, std::uint32_t accepted);
  /// Nothing was tried: what is known grows old, so that a better text is noticed one day.
  void fade();

 private:
  double prior_;
  double accepted_ = 0;
  double tested_ = 0;
};

/// Time won and lost by drafts over all lines, in the model's own costs.
class DraftAccount {
 public:
  explicit DraftAccount(const DraftLengthOptions& options) : options_(options) {}

  /// True where all of `drafts` may turn out wrong without the loss going beyond its bound.
  bool affords(std::uint32_t drafts, const DraftRoom& room, const StepCost& cost) const;
  void settle(const DraftOutcome& outcome, const StepCost& cost);
  /// Won (positive) or lost so far, and what the same tokens cost without drafts.
  double balance_us() const { return balance_us_; }
  double plain_us() const { return plain_us_; }

 private:
  DraftLengthOptions options_;
  double balance_us_ = 0;
  double plain_us_ = 0;
};

/// How many drafts to try now: what pays at this rate, as far as the account affords it. A line
/// that tries none fades.
std::uint32_t choose_draft_length(AcceptanceRate& rate, const DraftAccount& account,
                                  const DraftRoom& room, const StepCost& cost,
                                  const DraftLengthOptions& options);

}  // namespace paceline::spec
