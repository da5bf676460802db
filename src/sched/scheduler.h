// Continuous batching over a chain: which sequences compute how many rows in the next step.
//
// A step is planned, executed by the driver, and then committed with what was sampled, or rolled
// back. Steps are planned before earlier ones are known: those of other sequences always, those of
// the same one as its prompt goes through in chunks, as references to tokens not sampled yet, or as
// drafts that are not verified yet. The stages execute steps in the order of planning; everything
// here rests on that.
//
// The order of service is by arrival, a level of priority counting as so much time of waiting: then
// nobody is overtaken by those who come later than that, and nobody starves. Who came last in that
// order is preempted first when blocks run out, and computed again later. Decodes take turns.
//
// Pure: no clock, no threads, no I/O; what it does is a function of the calls. The coordinator and
// the simulator drive this code alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "sched/request.h"
#include "sched/step_plan.h"
#include "spec/draft_source.h"

namespace paceline::sched {

struct SchedulerOptions {
  std::uint32_t context_tokens = 4096;  ///< prompt and answer together
  std::uint32_t kv_blocks = 1024;       ///< of the chain's smallest stage
  std::uint32_t block_tokens = 32;
  std::uint32_t max_running = 64;   ///< sequences with KV at a time
  std::uint32_t max_waiting = 256;  ///< sequences that were never begun
  std::uint32_t max_choices = 64;   ///< of one request
  std::uint32_t max_drafts = 16;    ///< per sequence and step; needs a DraftSource
  /// Rows of prompts that a step samples (Request::samples_prompt): each has logits.
  std::uint32_t max_scored_rows = 64;
  /// Prompts that a step sums (Request::sums_prompt): each may bring a result of some size.
  std::uint32_t max_sums = 4096;
  /// Steps with rows of one sequence planned beyond the one that is awaited. 0: it waits for each.
  std::uint32_t steps_ahead = 0;
  /// Whether a sequence may begin in blocks of others. Else all begin at 0, and answers to one
  /// prompt compute it each.
  bool shares_kv = true;
  /// Steps ahead name tokens by reference, which the first stage can resolve (a chain of one stage,
  /// or one whose last stage feeds the first). Otherwise they consist of drafts.
  bool resolves_references = false;
  Duration priority_step = std::chrono::seconds(10);
};

/// How steps follow each other; pipeline.h chooses it from measured times.
struct PipelineShape {
  std::uint32_t groups = 1;           ///< steps in flight over which the decodes are spread
  std::uint32_t steps_in_flight = 2;  ///< in all; those beyond the groups carry prompts
  std::uint32_t step_tokens = 512;    ///< rows of a step; a short rest of a prompt goes along
  /// Prompt rows in flight at which no more are planned: what stages need to stay busy. By rows,
  /// since steps differ: a short one behind a long one must not keep the next one away.
  std::uint32_t prompt_tokens_in_flight = UINT32_MAX;
  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

struct SchedulerStats {
  std::size_t running = 0;
  std::size_t waiting = 0;  ///< preempted ones included
  std::size_t steps_in_flight = 0;
  std::uint32_t available_blocks = 0;
  std::uint32_t cached_blocks = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t planned_rows = 0;
  std::uint64_t wasted_rows = 0;    ///< computed for nothing: after an end, rejected, preempted
  std::uint64_t prompt_tokens = 0;  ///< of sequences that were begun, each time
  std::uint64_t reused_tokens = 0;  ///< of them, found in the KV cache
  std::uint64_t drafted_tokens = 0;
  std::uint64_t accepted_drafts = 0;
};

struct SchedulerState;

/// Thread-compatible.
class Scheduler {
 public:
  /// `drafts` may be nullptr; else it must outlive the scheduler.
  explicit Scheduler(const SchedulerOptions& options, spec::DraftSource* drafts = nullptr);
  ~Scheduler();

  /// kInvalidArgument: it cannot ever run (an empty prompt, or one longer than the context or the
  /// KV cache). kAlreadyExists. kResourceExhausted: too many are waiting.
  Status submit(Request request);
  /// Ends a request; the stages hear of it with the next step. kNotFound: it is not here (any
  /// more).
  Status cancel(RequestId request);
  /// The same for one answer, e.g. since a stop string is complete.
  Status stop(ChoiceKey choice);

  void set_pipeline(const PipelineShape& shape);
  /// The next step, or none: as many are in flight as may be, or there is nothing to do. Whoever
  /// gets a step owes its commit or rollback.
  std::optional<StepPlan> plan(TimePoint now);
  /// The oldest step in flight is done; `samples` are what its sampled rows gave, in order: all
  /// rows of a sequence, or up to the row whose sample is not the draft after it, or none where an
  /// earlier step's draft was wrong. kFailedPrecondition: another step is the oldest.
  /// kInvalidArgument: samples that this step cannot have given, or ids below 0. After an error
  /// nothing has changed: roll the step back.
  Result<std::vector<Progress>> commit(StepId step, std::span<const RowSample> samples);
  /// The same where each sampled row gave a token, whatever became of drafts.
  Result<std::vector<Progress>> commit(StepId step, std::span<const std::int64_t> sampled);
  /// `step` and all later ones did not happen, or not in every stage, and their results are to be
  /// dropped. Their sequences begin again from what earlier steps left in the cache.
  /// kFailedPrecondition: it is not in flight.
  Status rollback(StepId step);
  /// The stages have lost everything (a new epoch): nothing is in flight, cached or open.
  void reset();

  /// All known tokens of an answer, prompt included; empty where it is not here. Valid until the
  /// next call.
  std::span<const std::int64_t> tokens(ChoiceKey choice) const;
  bool is_idle() const;
  SchedulerStats stats() const;
  /// kInternal with what is wrong: books that do not agree with each other or with the blocks.
  Status check() const;

 private:
  std::unique_ptr<SchedulerState> state_;
};

}  // namespace paceline::sched
