// The scheduler's books; internal to this folder. Planner (step_planner.h) and scheduler.cc work on
// them.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kv/block_manager.h"
#include "sched/request.h"
#include "sched/scheduler.h"
#include "sched/step_plan.h"
#include "spec/draft_source.h"

namespace paceline::sched {

/// The order of service: arrival, moved by priority.
struct Rank {
  Duration::rep time = 0;
  ChoiceKey key;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

/// One answer. Its text is `tokens`; positions below `planned` have KV rows in steps planned so
/// far, all right as long as what they assumed is.
struct Sequence {
  ChoiceKey key;
  Rank rank;
  const Request* request = nullptr;
  spec::LineId line;
  std::vector<std::int64_t> tokens;
  std::uint32_t most_tokens = 0;  ///< prompt and answer
  /// Renewed when planned rows turn out wrong: rows of another branch are dropped.
  std::uint64_t branch = 0;
  std::uint32_t in_flight = 0;  ///< steps in flight with rows of this branch

  SequenceId id{0};  ///< open at the stages under this number; 0: waiting
  std::uint32_t planned = 0;
  std::uint32_t on_stages = 0;  ///< rows that the stages hold after all planned steps
  std::deque<std::optional<std::int64_t>> assumed;  ///< drafts or references at tokens.size()...
  StepId last_step{0};  ///< the last with rows of this sequence, and there:
  std::uint32_t last_past = 0;
  std::uint32_t last_row = 0;   ///< numbered over that step
  std::uint64_t last_turn = 0;  ///< in the order in which decodes were due
  std::uint32_t scored = 0;     ///< prompt rows whose samples were planned

  std::uint32_t known() const { return static_cast<std::uint32_t>(tokens.size()); }
  bool is_running() const { return id != SequenceId(0); }
  bool is_end(std::int64_t token) const;
  /// All its known text but the last token has rows: it goes on token by token.
  bool is_decoding() const { return planned + 1 >= known(); }
  /// Rows that it can use from `planned` on: the last token needs none.
  std::uint32_t rows_left() const { return most_tokens - 1 - planned; }
};

struct RowsInFlight {
  ChoiceKey key;
  SequenceId sequence;
  std::uint64_t branch = 0;
  std::uint32_t past_tokens = 0;
  std::vector<std::uint32_t> sampled_rows;
  std::vector<std::int64_t> drafts;  ///< the inputs of the last rows
  std::uint32_t rows = 0;
  bool is_decode = false;
  std::uint32_t match = 0;
  spec::DraftRoom room;
};

struct StepInFlight {
  StepId id;
  std::vector<RowsInFlight> rows;
  std::vector<SequenceId> freed;
  std::size_t samples = 0;
  bool has_decodes = false;
};

struct RequestInWork {
  Request request;
  std::uint32_t open_choices = 0;
};

struct SchedulerState {
  SchedulerState(const SchedulerOptions& chosen, spec::DraftSource* source)
      : options(chosen), drafts(source), blocks(chosen.kv_blocks, chosen.block_tokens) {}

  Sequence* find(ChoiceKey key);
  /// Gives up its blocks; it waits to be computed again, with its text.
  void preempt(Sequence& sequence);
  /// Its rows in flight are dropped.
  void drop_rows(Sequence& sequence);
  /// It ends: nothing of it stays but the cached blocks.
  void remove(Sequence& sequence, bool is_complete);
  /// Lets others find what is planned of its text.
  void publish(const Sequence& sequence, StepId newest);

  const SchedulerOptions options;
  spec::DraftSource* const drafts;
  PipelineShape shape;
  kv::BlockManager blocks;
  std::map<RequestId, RequestInWork> requests;
  std::map<ChoiceKey, Sequence> sequences;
  std::map<Rank, Sequence*> waiting;
  std::map<Rank, Sequence*> running;
  std::deque<StepInFlight> in_flight;
  std::vector<SequenceId> frees;  ///< what the stages do not know yet
  std::uint64_t last_step = 0;
  std::uint64_t last_sequence = 0;
  std::uint64_t last_line = 0;
  std::uint64_t last_branch = 0;
  std::uint64_t last_turn = 0;
  std::size_t never_begun = 0;
  SchedulerStats counters;
};

}  // namespace paceline::sched
