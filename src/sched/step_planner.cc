#include "sched/step_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paceline::sched {
namespace {

/// The wire's bounds of a step: sequences, freed ones included, and tokens of history.
constexpr std::size_t kMostSequences = 4096;
constexpr std::size_t kMostHistory = 1U << 20;

std::vector<Sequence*> in_order(const std::map<Rank, Sequence*>& sequences) {
  std::vector<Sequence*> ordered;
  for (const auto& [rank, sequence] : sequences) ordered.push_back(sequence);
  return ordered;
}

}  // namespace

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

// --- prompts, and texts of preempted sequences ---

bool StepPlanner::has_room_for_prompts() const {
  std::uint64_t in_flight = 0;
  for (const StepInFlight& step : state_.in_flight) {
    for (const RowsInFlight& rows : step.rows) in_flight += rows.is_decode ? 0 : rows.rows;
  }
  return in_flight < state_.shape.prompt_tokens_in_flight;
}

bool StepPlanner::has_many_prompts() const {
  const std::uint64_t enough = state_.shape.step_tokens / 4;
  std::uint64_t rows = 0;
  for (const auto& [rank, sequence] : state_.running) {
    if (!sequence->is_decoding()) rows += sequence->known() - sequence->planned;
    if (rows >= enough) return true;
  }
  std::size_t places = state_.options.max_running - state_.running.size();
  for (const auto& [rank, sequence] : state_.waiting) {
    if (places-- == 0) break;
    rows += sequence->known();
    if (rows >= enough) return true;
  }
  return false;
}

bool StepPlanner::wants_prompts() const {
  // With all groups on the way, a step of a few rows would cost nearly what a full one does.
  return !step_.sequences.empty() || decode_steps_in_flight() < state_.shape.groups ||
         has_many_prompts();
}

bool StepPlanner::scores(const Sequence& sequence) {
  return sequence.request->samples_prompt && sequence.key.choice == 0;
}

std::uint32_t StepPlanner::chunk_of(const Sequence& sequence) const {
  const std::uint32_t left = sequence.known() - sequence.planned;
  if (scores(sequence) && sequence.scored < sequence.request->prompt.size()) {
    const std::uint32_t room = state_.options.max_scored_rows - scored_rows_;
    return std::min({left, budget_, room});
  }
  // A rest of a few rows is not worth a step of its own.
  return left <= budget_ + state_.shape.step_tokens / 8 ? left : budget_;
}

void StepPlanner::prefill(Sequence& sequence, std::uint32_t count) {
  const auto first = sequence.tokens.begin() + sequence.planned;
  std::vector<TokenInput> inputs(first, first + count);
  const std::uint32_t past = sequence.planned;
  add_rows(sequence, std::move(inputs), false);
  std::uint32_t sampled = sequence.known() - 1;
  if (scores(sequence)) {
    sampled = std::min(sampled, std::max(sequence.scored, past));
    if (sequence.scored < sequence.request->prompt.size()) scored_rows_ += count;
    sequence.scored = std::max(sequence.scored, sequence.planned);
  }
  sample_rows_from(sampled > past ? sampled - past : 0);
}

void StepPlanner::plan_prefills() {
  for (Sequence* sequence : in_order(state_.running)) {
    if (budget_ == 0) return;
    if (!sequence->is_running() || sequence->is_decoding() || is_in_step(*sequence)) continue;
    std::uint32_t count = chunk_of(*sequence);
    while (count > 0 && !make_room(*sequence, count, true)) {
      const std::uint64_t reach = state_.blocks.reachable_tokens(sequence->id);
      const std::uint64_t fit = reach > sequence->planned ? reach - sequence->planned : 0;
      count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count - 1, fit));
    }
    if (count == 0 && chunk_of(*sequence) == 0) continue;  // no more scores in this step
    if (count == 0) {
      is_short_of_blocks_ = true;  // those after it must not take what it waits for
      return;
    }
    prefill(*sequence, count);
  }
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

// --- admission ---

bool StepPlanner::may_begin(const Sequence& sequence) const {
  // What is in flight may still give it tokens.
  if (sequence.in_flight > 0) return false;
  if (sequence.key.choice == 0 || sequence.known() > sequence.request->prompt.size()) return true;
  if (!state_.options.shares_kv) return true;
  // Further answers wait for the first one to compute the prompt.
  const auto first = state_.sequences.find({sequence.key.request, 0});
  return first == state_.sequences.end() || fork_parent(sequence) != nullptr;
}

const Sequence* StepPlanner::fork_parent(const Sequence& sequence) const {
  if (!state_.options.shares_kv) return nullptr;
  if (sequence.key.choice == 0 || sequence.known() > sequence.request->prompt.size()) {
    return nullptr;
  }
  const auto first = state_.sequences.find({sequence.key.request, 0});
  if (first == state_.sequences.end() || !first->second.is_running()) return nullptr;
  // Rows of this very step are not there yet when the copies are made.
  const Sequence& parent = first->second;
  const std::uint32_t planned = is_in_step(parent) ? parent.last_past : parent.planned;
  return planned + 1 >= sequence.known() ? &parent : nullptr;
}

/// The last token is always computed: it gives the next one. So is what is to be sampled.
std::uint32_t StepPlanner::reusable_tokens(const Sequence& sequence) const {
  if (!state_.options.shares_kv) return 0;
  return scores(sequence) ? std::min(sequence.scored, sequence.known() - 1) : sequence.known() - 1;
}

bool StepPlanner::has_blocks_for(const Sequence& sequence, const Sequence* parent) const {
  // Alone it fits, or it would have been refused.
  if (state_.running.empty()) return true;
  const kv::BlockManager& blocks = state_.blocks;
  std::uint64_t needed = 0;
  if (parent != nullptr) {
    needed = blocks.blocks_for(sequence.known()) - (sequence.known() - 1) / blocks.block_tokens();
  } else {
    needed = blocks.blocks_to_open(sequence.request->cache_salt, sequence.tokens,
                                   reusable_tokens(sequence), sequence.known());
  }
  // What the others' texts still need, and a little to go on with.
  for (const auto& [rank, other] : state_.running) {
    const std::size_t has = blocks.table(other->id).size();
    needed += std::max<std::size_t>(blocks.blocks_for(other->known()), has) - has;
  }
  const std::uint32_t spare = 1 + blocks.capacity_blocks() / 64;
  return needed + spare <= blocks.available_blocks();
}

bool StepPlanner::begin(Sequence& sequence, const Sequence* parent) {
  sequence.id = SequenceId(++state_.last_sequence);
  if (parent != nullptr) {
    state_.blocks.fork(sequence.id, parent->id, sequence.known() - 1);
    sequence.planned = sequence.known() - 1;
  } else {
    sequence.planned = state_.blocks.open(sequence.id, sequence.request->cache_salt,
                                          sequence.tokens, reusable_tokens(sequence));
  }
  const std::uint32_t count = chunk_of(sequence);
  const std::uint32_t reused = sequence.planned;
  if (!make_room(sequence, count, false)) {
    state_.blocks.free(sequence.id);
    sequence.id = SequenceId(0);
    sequence.planned = 0;
    return false;
  }
  state_.waiting.erase(sequence.rank);
  state_.running.emplace(sequence.rank, &sequence);
  // Cut to what it keeps of the parent; otherwise its place is where its rows begin.
  sequence.on_stages = parent != nullptr ? parent->on_stages : reused;
  if (sequence.request->has_history) history_tokens_ += sequence.known();
  step_.opened.push_back(
      {sequence.id, sequence.key, sequence.known(), now_ - sequence.request->arrival});
  state_.counters.prompt_tokens += sequence.known();
  state_.counters.reused_tokens += reused;
  prefill(sequence, count);
  if (parent != nullptr) {
    step_.sequences.back().fork_from = parent->id;
    step_.sequences.back().truncate_to = reused;
  }
  return true;
}

bool StepPlanner::has_place_for(const Sequence& sequence) const {
  if (scores(sequence) && scored_rows_ >= state_.options.max_scored_rows) return false;
  return !sequence.request->has_history || history_tokens_ == 0 ||
         history_tokens_ + sequence.known() <= kMostHistory;
}

void StepPlanner::admit() {
  // Not what was taken away in this step, and not while others wait for blocks.
  if (has_preempted_ || is_short_of_blocks_) return;
  for (Sequence* sequence : in_order(state_.waiting)) {
    if (state_.running.size() >= state_.options.max_running || budget_ == 0) return;
    if (step_.sequences.size() >= kMostSequences) return;
    if (!has_place_for(*sequence)) return;
    if (!may_begin(*sequence)) continue;
    const Sequence* parent = fork_parent(*sequence);
    if (!has_blocks_for(*sequence, parent) || !begin(*sequence, parent)) return;
  }
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
