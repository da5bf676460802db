#include "sched/step_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paceline::sched {

std::optional<StepPlan> StepPlanner::plan() {
  if (state_.in_flight.size() >= state_.shape.steps_in_flight) return std::nullopt;
  step_.id = record_.id = StepId(state_.last_step + 1);
  budget_ = state_.shape.step_tokens;
  const bool has_room = has_room_for_prompts();
  // Decodes ride along with prompts: a step of a few rows would cost much and come back no sooner
  // than the prompts that it stands behind.
  if (has_room || !has_many_prompts()) plan_decodes();
  if (has_room && wants_prompts()) {
    plan_prefills();
    admit();
  }
  if (step_.sequences.empty() && state_.frees.empty()) return std::nullopt;
  return finish();
}

StepPlan StepPlanner::finish() {
  state_.last_step = step_.id.value();
  for (const PlannedRows& rows : step_.sequences) {
    state_.publish(*state_.find(rows.key), step_.id);
  }
  const auto freed = static_cast<std::ptrdiff_t>(
      std::min(state_.frees.size(), kMostSequences - step_.sequences.size()));
  step_.freed.assign(state_.frees.begin(), state_.frees.begin() + freed);
  state_.frees.erase(state_.frees.begin(), state_.frees.begin() + freed);
  record_.freed = step_.freed;
  record_.samples = step_.samples();
  state_.counters.planned_rows += row_count_;
  state_.in_flight.push_back(std::move(record_));
  return std::move(step_);
}

// --- decodes ---

bool StepPlanner::is_due(const Sequence& sequence) const {
  if (!sequence.is_decoding() || sequence.rows_left() == 0) return false;
  if (sequence.planned < sequence.known()) return true;
  // Beyond what is known: by references or drafts.
  return sequence.in_flight > 0 && sequence.in_flight <= state_.options.steps_ahead &&
         (state_.options.resolves_references || state_.drafts != nullptr);
}

std::uint32_t StepPlanner::decode_rows() const {
  // Prompts get a quarter of the rows where decodes alone could take all.
  const bool has_prompts =
      !state_.waiting.empty() ||
      std::any_of(state_.running.begin(), state_.running.end(),
                  [](const auto& entry) { return !entry.second->is_decoding(); });
  return has_prompts && budget_ > 1 ? budget_ - std::max(1U, budget_ / 4) : budget_;
}

std::vector<Sequence*> StepPlanner::due_decodes() const {
  std::vector<Sequence*> due;
  std::uint64_t decoding = 0;
  for (const auto& [rank, sequence] : state_.running) {
    decoding += sequence->is_decoding() ? 1 : 0;
    if (is_due(*sequence)) due.push_back(sequence);
  }
  // A step takes its share, and no more: the other groups' steps need sequences too.
  const std::uint64_t places = decoding * (1 + state_.options.steps_ahead);
  const std::uint64_t share = (places + state_.shape.groups - 1) / state_.shape.groups;
  const std::uint64_t count = std::min<std::uint64_t>({due.size(), share, decode_rows()});
  // Not by the last step: of those that shared one, the same would win each time.
  std::stable_sort(due.begin(), due.end(), [](const Sequence* a, const Sequence* b) {
    return a->last_turn < b->last_turn;
  });
  due.resize(count);
  return due;
}

std::size_t StepPlanner::decode_steps_in_flight() const {
  return static_cast<std::size_t>(
      std::count_if(state_.in_flight.begin(), state_.in_flight.end(),
                    [](const StepInFlight& step) { return step.has_decodes; }));
}

void StepPlanner::plan_decodes() {
  if (decode_steps_in_flight() >= state_.shape.groups) return;
  std::vector<Sequence*> due = due_decodes();
  for (Sequence* sequence : due) sequence->last_turn = ++state_.last_turn;
  // Whoever may be preempted for others must come after them.
  std::sort(due.begin(), due.end(),
            [](const Sequence* a, const Sequence* b) { return a->rank < b->rank; });
  const std::uint32_t kept = budget_ - decode_rows();
  budget_ -= kept;
  auto left = static_cast<std::uint32_t>(due.size());
  for (Sequence* sequence : due) {
    --left;
    if (sequence->is_running()) decode(*sequence, left);
  }
  budget_ += kept;
}

spec::Draft StepPlanner::propose(const Sequence& sequence, const spec::DraftRoom& room) const {
  if (state_.drafts == nullptr || room.most == 0) return {};
  std::vector<std::int64_t> assumed;
  for (const auto& token : sequence.assumed) {
    if (!token) return {};  // a reference: what follows it cannot be guessed
    assumed.push_back(*token);
  }
  spec::Draft draft = state_.drafts->propose(sequence.line, sequence.tokens, assumed, room);
  if (draft.tokens.size() > room.most) draft.tokens.resize(room.most);
  return draft;
}

/// `left`: decodes of this step that are still to be planned; each needs a row.
void StepPlanner::decode(Sequence& sequence, std::uint32_t left) {
  std::vector<TokenInput> inputs;
  const bool is_ahead = sequence.planned >= sequence.known();
  if (!is_ahead) {
    inputs.emplace_back(sequence.tokens[sequence.planned]);
  } else if (state_.options.resolves_references) {
    inputs.emplace_back(TokenReference{sequence.last_step, sequence.last_row});
  }
  const auto given = static_cast<std::uint32_t>(inputs.size());
  const std::uint32_t spare = budget_ > left + given ? budget_ - left - given : 0;
  spec::DraftRoom room;
  room.most = std::min({state_.options.max_drafts, spare, sequence.rows_left() - given});
  room.other_rows = row_count_ + left;
  room.other_tokens = static_cast<std::uint32_t>(step_.sequences.size()) + left;
  spec::Draft draft;
  // After a reference nothing can be guessed.
  if (!is_ahead || inputs.empty()) draft = propose(sequence, room);
  if (draft.is_coming) return;
  if (!draft.tokens.empty() &&
      !make_room(sequence, given + static_cast<std::uint32_t>(draft.tokens.size()), false)) {
    draft.tokens.clear();
  }
  for (const std::int64_t token : draft.tokens) inputs.emplace_back(token);
  if (inputs.empty()) return;
  if (draft.tokens.empty() && !make_room(sequence, given, !is_ahead)) {
    if (!is_ahead) preempt(sequence);
    return;
  }
  PlannedRows& rows = add_rows(sequence, std::move(inputs), true);
  rows.drafts = static_cast<std::uint32_t>(draft.tokens.size());
  record_.rows.back().drafts = std::move(draft.tokens);
  record_.rows.back().match = draft.match;
  record_.rows.back().room = room;
  sample_rows_from(0);
}

// --- blocks ---

bool StepPlanner::make_room(Sequence& sequence, std::uint32_t rows, bool preempts) {
  for (;;) {
    auto copies = state_.blocks.reserve(sequence.id, sequence.planned, sequence.planned + rows);
    if (copies) {
      step_.copies.insert(step_.copies.end(), copies->begin(), copies->end());
      return true;
    }
    if (!preempts || !preempt_later_than(sequence)) return false;
  }
}

bool StepPlanner::preempt_later_than(const Sequence& sequence) {
  for (auto last = state_.running.rbegin(); last != state_.running.rend(); ++last) {
    if (!(sequence.rank < last->first)) return false;
    if (is_in_step(*last->second)) continue;
    preempt(*last->second);
    return true;
  }
  return false;
}

void StepPlanner::preempt(Sequence& sequence) {
  state_.preempt(sequence);
  has_preempted_ = true;
  ++state_.counters.preemptions;
}

// --- rows ---

PlannedRows& StepPlanner::add_rows(Sequence& sequence, std::vector<TokenInput> inputs,
                                   bool is_decode) {
  const auto count = static_cast<std::uint32_t>(inputs.size());
  PACELINE_CHECK(count > 0);
  if (sequence.last_step == StepId(0)) --state_.never_begun;
  PlannedRows rows;
  rows.sequence = sequence.id;
  rows.key = sequence.key;
  rows.past_tokens = sequence.planned;
  if (sequence.on_stages > sequence.planned) rows.truncate_to = sequence.planned;
  const auto table = state_.blocks.table(sequence.id);
  rows.blocks.assign(table.begin(), table.end());
  for (std::uint32_t row = 0; row < count; ++row) {
    if (sequence.planned + row < sequence.known()) continue;
    const auto* token = std::get_if<std::int64_t>(&inputs[row]);
    sequence.assumed.push_back(token == nullptr ? std::nullopt : std::optional(*token));
  }
  rows.tokens = std::move(inputs);

  RowsInFlight record;
  record.key = sequence.key;
  record.sequence = sequence.id;
  record.branch = sequence.branch;
  record.past_tokens = sequence.planned;
  record.rows = count;
  record.is_decode = is_decode;
  record_.rows.push_back(std::move(record));
  record_.has_decodes |= is_decode;

  sequence.last_step = step_.id;
  sequence.last_past = sequence.planned;
  row_count_ += count;
  sequence.last_row = row_count_ - 1;
  sequence.planned += count;
  sequence.on_stages = sequence.planned;
  ++sequence.in_flight;
  budget_ -= std::min(budget_, count);
  step_.sequences.push_back(std::move(rows));
  return step_.sequences.back();
}

/// Of the rows added last, all from `first` on.
void StepPlanner::sample_rows_from(std::uint32_t first) {
  PlannedRows& rows = step_.sequences.back();
  for (auto row = first; row < rows.tokens.size(); ++row) rows.sampled_rows.push_back(row);
  record_.rows.back().sampled_rows = rows.sampled_rows;
}

}  // namespace paceline::sched
