// Makes one step out of the scheduler's books; internal to this folder.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sched/scheduler_state.h"

namespace paceline::sched {

/// Used once: plan() changes the books as if the step were executed.
class StepPlanner {
 public:
  StepPlanner(SchedulerState& state, TimePoint now) : state_(state), now_(now) {}

  std::optional<StepPlan> plan();

 private:
  /// The wire's bound of a step's sequences, freed ones included.
  static constexpr std::size_t kMostSequences = 4096;

  void plan_decodes();
  /// False where prompts should rather ride along with decodes that will be due soon.
  bool has_room_for_prompts() const;
  bool has_many_prompts() const;
  bool wants_prompts() const;
  void plan_prefills();
  void admit();
  StepPlan finish();

  /// Decodes whose turn it is: of those that are due, the ones that waited longest.
  std::vector<Sequence*> due_decodes() const;
  bool is_due(const Sequence& sequence) const;
  std::uint32_t decode_rows() const;
  std::size_t decode_steps_in_flight() const;
  void decode(Sequence& sequence, std::uint32_t others);
  spec::Draft propose(const Sequence& sequence, const spec::DraftRoom& room) const;

  /// Room for `rows` rows, at the cost of sequences that came later where `preempts`.
  bool make_room(Sequence& sequence, std::uint32_t rows, bool preempts);
  bool preempt_later_than(const Sequence& sequence);
  void preempt(Sequence& sequence);

  bool may_begin(const Sequence& sequence) const;
  /// The answer to the same prompt whose KV it can begin with.
  const Sequence* fork_parent(const Sequence& sequence) const;
  std::uint32_t reusable_tokens(const Sequence& sequence) const;
  bool has_blocks_for(const Sequence& sequence, const Sequence* parent) const;
  bool begin(Sequence& sequence, const Sequence* parent);
  bool has_place_for(const Sequence& sequence) const;
  static bool scores(const Sequence& sequence);
  void prefill(Sequence& sequence, std::uint32_t rows);
  std::uint32_t chunk_of(const Sequence& sequence) const;

  bool is_in_step(const Sequence& sequence) const { return sequence.last_step == step_.id; }
  PlannedRows& add_rows(Sequence& sequence, std::vector<TokenInput> inputs, bool is_decode);
  void sample_rows_from(std::uint32_t first);

  SchedulerState& state_;
  const TimePoint now_;
  StepPlan step_;
  StepInFlight record_;
  std::uint32_t budget_ = 0;  ///< rows that the step still has room for
  std::uint32_t row_count_ = 0;
  std::uint32_t scored_rows_ = 0;
  std::uint32_t sums_ = 0;
  std::size_t history_tokens_ = 0;  ///< of opened sequences that bring theirs
  bool has_preempted_ = false;
  bool is_short_of_blocks_ = false;
};

}  // namespace paceline::sched
