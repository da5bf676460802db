// Scheduler::check(): the books against each other.
#include <map>

#include "sched/scheduler_state.h"

namespace paceline::sched {
namespace {

Status wrong(const Sequence& sequence, std::string_view what) {
  return fail(ErrorCode::kInternal, "answer {} of request {}: {}", sequence.key.choice,
              sequence.key.request.value(), what);
}

Status check_running(const SchedulerState& state, const Sequence& sequence) {
  if (sequence.planned > state.blocks.tokens(sequence.id)) {
    return wrong(sequence, "its blocks are fewer than its planned rows");
  }
  const std::uint32_t beyond =
      sequence.planned > sequence.known() ? sequence.planned - sequence.known() : 0;
  if (sequence.assumed.size() != beyond) {
    return wrong(sequence, "what it assumes does not fit its planned rows");
  }
  if (sequence.planned >= sequence.most_tokens) return wrong(sequence, "rows beyond its end");
  if (beyond > 0 && sequence.in_flight == 0) return wrong(sequence, "it waits for nothing");
  return {};
}

Status check_sequence(const SchedulerState& state, const Sequence& sequence,
                      std::uint32_t in_flight) {
  const bool is_running = state.running.contains(sequence.rank);
  if (is_running == state.waiting.contains(sequence.rank) || is_running != sequence.is_running()) {
    return wrong(sequence, "it is neither running nor waiting, or both");
  }
  if (sequence.known() >= sequence.most_tokens) return wrong(sequence, "it should have ended");
  if (sequence.in_flight != in_flight) return wrong(sequence, "its steps in flight are miscounted");
  if (is_running) return check_running(state, sequence);
  if (sequence.planned != 0 || !sequence.assumed.empty()) {
    return wrong(sequence, "it waits with rows planned");
  }
  return {};
}

}  // namespace

Status Scheduler::check() const {
  const SchedulerState& state = *state_;
  PACELINE_RETURN_IF_ERROR(state.blocks.check());
  std::map<std::uint64_t, std::uint32_t> in_flight;  // by branch
  for (const StepInFlight& step : state.in_flight) {
    for (const RowsInFlight& rows : step.rows) ++in_flight[rows.branch];
  }
  std::size_t never_begun = 0;
  std::map<RequestId, std::uint32_t> choices;
  for (const auto& [key, sequence] : state.sequences) {
    PACELINE_RETURN_IF_ERROR(check_sequence(state, sequence, in_flight[sequence.branch]));
    never_begun += sequence.last_step == StepId(0) ? 1 : 0;
    ++choices[key.request];
  }
  if (state.running.size() + state.waiting.size() != state.sequences.size()) {
    return fail(ErrorCode::kInternal, "{} answers, but {} running and {} waiting",
                state.sequences.size(), state.running.size(), state.waiting.size());
  }
  if (state.blocks.sequences() != state.running.size()) {
    return fail(ErrorCode::kInternal, "{} sequences have blocks, {} are running",
                state.blocks.sequences(), state.running.size());
  }
  if (state.running.size() > state.options.max_running || never_begun != state.never_begun) {
    return fail(ErrorCode::kInternal, "{} running of {}, {} never begun but {} counted",
                state.running.size(), state.options.max_running, never_begun, state.never_begun);
  }
  for (const auto& [id, work] : state.requests) {
    if (work.open_choices != choices[id] || work.open_choices == 0) {
      return fail(ErrorCode::kInternal, "request {} has {} answers, {} counted", id.value(),
                  choices[id], work.open_choices);
    }
  }
  return {};
}

}  // namespace paceline::sched
