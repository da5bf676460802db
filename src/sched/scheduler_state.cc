#include "sched/scheduler_state.h"

#include <algorithm>

namespace paceline::sched {

bool Sequence::is_end(std::int64_t token) const {
  const auto& ends = request->end_tokens;
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

Sequence* SchedulerState::find(ChoiceKey key) {
  const auto found = sequences.find(key);
  return found == sequences.end() ? nullptr : &found->second;
}

void SchedulerState::preempt(Sequence& sequence) {
  running.erase(sequence.rank);
  waiting.emplace(sequence.rank, &sequence);
  frees.push_back(sequence.id);
  blocks.free(sequence.id);
  sequence.id = SequenceId(0);
  sequence.planned = 0;
  sequence.on_stages = 0;
  sequence.assumed.clear();
}

void SchedulerState::drop_rows(Sequence& sequence) {
  sequence.branch = ++last_branch;
  sequence.in_flight = 0;
}

void SchedulerState::remove(Sequence& sequence, bool is_complete) {
  if (sequence.is_running()) {
    running.erase(sequence.rank);
    frees.push_back(sequence.id);
    blocks.free(sequence.id);
  } else {
    waiting.erase(sequence.rank);
  }
  if (sequence.last_step == StepId(0)) --never_begun;
  if (drafts != nullptr) {
    // From a text that nobody continued nothing is to be learned.
    const bool is_text = is_complete && !sequence.request->sums_prompt;
    drafts->finish(sequence.line, is_text ? std::span<const std::int64_t>(sequence.tokens)
                                          : std::span<const std::int64_t>());
  }
  const ChoiceKey key = sequence.key;
  const auto request = requests.find(key.request);
  const bool was_last = --request->second.open_choices == 0;
  sequences.erase(key);
  if (was_last) requests.erase(request);
}

void SchedulerState::publish(const Sequence& sequence, StepId newest) {
  const std::uint32_t count = std::min(sequence.known(), sequence.planned);
  blocks.publish(sequence.id, sequence.request->cache_salt, std::span(sequence.tokens).first(count),
                 newest.value());
}

std::uint32_t StepPlan::rows() const {
  std::size_t count = 0;
  for (const PlannedRows& rows : sequences) count += rows.tokens.size();
  return static_cast<std::uint32_t>(count);
}

std::size_t StepPlan::samples() const {
  std::size_t count = 0;
  for (const PlannedRows& rows : sequences) count += rows.sampled_rows.size();
  return count;
}

}  // namespace paceline::sched
