// The part of a step that is prompts, texts of preempted sequences among them, and whose turn it is
// to begin.
#include <algorithm>
#include <utility>

#include "sched/step_planner.h"

namespace paceline::sched {
namespace {

/// The wire's bound of a step's tokens of history.
constexpr std::size_t kMostHistory = 1U << 20;

std::vector<Sequence*> in_order(const std::map<Rank, Sequence*>& sequences) {
  std::vector<Sequence*> ordered;
  ordered.reserve(sequences.size());
  for (const auto& [rank, sequence] : sequences) ordered.push_back(sequence);
  return ordered;
}

}  // namespace

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
  if (sequence.request->sums_prompt && sums_ >= state_.options.max_sums) return 0;
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
  if (sequence.request->sums_prompt) ++sums_;
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
    if (count == 0 && chunk_of(*sequence) == 0) continue;  // no more scores or sums in this step
    if (count == 0) {
      is_short_of_blocks_ = true;  // those after it must not take what it waits for
      return;
    }
    prefill(*sequence, count);
  }
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
  if (!state_.options.shares_kv || sequence.request->sums_prompt) return 0;
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
  if (sequence.request->sums_prompt && sums_ >= state_.options.max_sums) return false;
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

}  // namespace paceline::sched
