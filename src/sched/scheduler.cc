#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler_state.h"
#include "sched/step_planner.h"

namespace paceline::sched {
namespace {

/// Beyond this a priority times its worth in time could overflow; nobody needs more levels.
constexpr std::int32_t kMostPriority = 1000;

bool are_tokens(std::span<const std::int64_t> tokens) {
  return std::all_of(tokens.begin(), tokens.end(), [](std::int64_t token) { return token >= 0; });
}

Status check_request(const Request& request, const SchedulerOptions& options,
                     std::uint64_t kv_tokens) {
  const std::size_t prompt = request.prompt.size();
  if (prompt == 0) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (prompt >= options.context_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                "the prompt has {} tokens, the context holds {} with the answer; shorten it or "
                "raise --ctx",
                prompt, options.context_tokens);
  }
  if (prompt > kv_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                "the prompt has {} tokens, the KV cache of the chain holds {}", prompt, kv_tokens);
  }
  if (!are_tokens(request.prompt)) {
    return fail(ErrorCode::kInvalidArgument, "prompt: a token id is below 0");
  }
  if (request.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "max tokens is 0");
  if (request.sums_prompt && (request.max_tokens != 1 || request.choices != 1)) {
    return fail(ErrorCode::kInvalidArgument,
                "a prompt that is summed has {} answers of {} tokens, expected 1 of 1",
                request.choices, request.max_tokens);
  }
  if (request.choices == 0 || request.choices > options.max_choices) {
    return fail(ErrorCode::kInvalidArgument, "choices: {}, expected 1 to {}", request.choices,
                options.max_choices);
  }
  if (request.priority < -kMostPriority || request.priority > kMostPriority) {
    return fail(ErrorCode::kInvalidArgument, "priority: {}, expected {} to {}", request.priority,
                -kMostPriority, kMostPriority);
  }
  return {};
}

/// Divides the samples of the oldest step over its sequences.
class SampleCounter {
 public:
  SampleCounter(const SchedulerState& state, std::span<const RowSample> samples)
      : state_(state), step_(state.in_flight.front()), samples_(samples) {}

  /// Of each entry of the step's rows, how many samples are its; an error where the step cannot
  /// have given them.
  Result<std::vector<std::size_t>> count() {
    std::vector<std::size_t> counts;
    std::size_t next = 0;
    std::uint32_t first_row = 0;
    for (const RowsInFlight& rows : step_.rows) {
      const std::size_t first = next;
      while (next < samples_.size() && next - first < rows.sampled_rows.size() &&
             samples_[next].row == first_row + rows.sampled_rows[next - first]) {
        if (samples_[next++].token < 0) {
          return fail(ErrorCode::kInvalidArgument, "step {}: a sampled token id is below 0",
                      step_.id.value());
        }
      }
      if (!may_end_after(rows, samples_.subspan(first, next - first))) return mismatch();
      counts.push_back(next - first);
      first_row += rows.rows;
    }
    if (next != samples_.size()) return mismatch();
    return counts;
  }

 private:
  bool may_end_after(const RowsInFlight& rows, std::span<const RowSample> samples) const {
    if (samples.size() == rows.sampled_rows.size()) return true;
    const auto sequence = state_.sequences.find(rows.key);
    const bool is_dropped =
        sequence == state_.sequences.end() || sequence->second.branch != rows.branch;
    // A first row that was a wrong guess: known here, unless the sequence was preempted meanwhile.
    if (samples.empty()) return is_dropped || first_row_is_draft(rows);
    // The row after the last sample holds a draft: a wrong one, unless the text ends here.
    const std::size_t first_draft = rows.rows - rows.drafts.size();
    const std::size_t row = rows.sampled_rows[samples.size()];
    if (row < first_draft) return false;
    const std::int64_t token = samples.back().token;
    return is_dropped || rows.drafts[row - first_draft] != token || sequence->second.is_end(token);
  }
  static bool first_row_is_draft(const RowsInFlight& rows) {
    return rows.drafts.size() == rows.rows;
  }
  tl::unexpected<Error> mismatch() const {
    return fail(ErrorCode::kInvalidArgument,
                "step {} gave {} samples of other rows than those that were asked for",
                step_.id.value(), samples_.size());
  }

  const SchedulerState& state_;
  const StepInFlight& step_;
  std::span<const RowSample> samples_;
};

/// Takes the tokens of one sequence's sampled rows.
class RowsSettler {
 public:
  RowsSettler(SchedulerState& state, const RowsInFlight& rows) : state_(state), rows_(rows) {}

  /// Nothing where the rows brought no token.
  std::optional<Progress> settle(std::span<const std::int64_t> sampled, std::size_t first_sample) {
    Sequence* sequence = state_.find(rows_.key);
    if (sequence == nullptr || sequence->branch != rows_.branch) {
      if (sequence != nullptr && rows_.is_decode) observe(*sequence, 0, true);
      state_.counters.wasted_rows += rows_.rows;
      return std::nullopt;
    }
    --sequence->in_flight;
    if (sampled.empty() && !rows_.sampled_rows.empty()) state_.drop_rows(*sequence);
    Progress progress;
    progress.key = rows_.key;
    for (std::size_t i = 0; i < sampled.size() && !progress.is_finished; ++i) {
      const std::uint32_t position = rows_.past_tokens + rows_.sampled_rows[i];
      if (position + 1 != sequence->known()) continue;  // known already: a row of the prompt
      if (!was_right(*sequence, position)) break;
      if (progress.tokens.empty()) progress.first_sample = first_sample + i;
      accept(*sequence, sampled[i], progress);
      if (sequence->branch != rows_.branch) break;
    }
    if (rows_.is_decode) observe(*sequence, progress.tokens.size(), false);
    if (progress.is_finished) {
      state_.remove(*sequence, true);
    } else if (sequence->is_running()) {
      state_.publish(*sequence, StepId(state_.last_step));
    }
    if (progress.tokens.empty()) return std::nullopt;
    return progress;
  }

 private:
  /// A row gives the next token if its own input, where it was a draft, was right.
  bool was_right(Sequence& sequence, std::uint32_t position) {
    const std::size_t row = position - rows_.past_tokens;
    const std::size_t first_draft = rows_.rows - rows_.drafts.size();
    if (row < first_draft || rows_.drafts[row - first_draft] == sequence.tokens[position]) {
      return true;
    }
    // Met only where the sequence was preempted meanwhile; else accept() has seen it.
    state_.drop_rows(sequence);
    return false;
  }

  void accept(Sequence& sequence, std::int64_t token, Progress& progress) {
    progress.tokens.push_back(token);
    sequence.tokens.push_back(token);
    if (sequence.is_end(token)) {
      progress.is_finished = true;
      progress.reason = FinishReason::kEndToken;
    } else if (sequence.known() == sequence.most_tokens) {
      progress.is_finished = true;
      progress.reason = FinishReason::kLength;
    }
    if (sequence.assumed.empty()) return;
    const std::optional<std::int64_t> assumed = sequence.assumed.front();
    sequence.assumed.pop_front();
    if (!assumed || *assumed == token) return;
    // Rows from here on were computed for another text.
    state_.drop_rows(sequence);
    sequence.planned = sequence.known() - 1;
    sequence.assumed.clear();
  }

  void observe(const Sequence& sequence, std::size_t tokens, bool is_void) {
    const auto drafts = static_cast<std::uint32_t>(rows_.drafts.size());
    // A step of drafts alone stands for one whose first row was known.
    const std::uint32_t own_row = rows_.rows - drafts;
    spec::DraftOutcome outcome;
    outcome.is_void = is_void;
    outcome.proposed = own_row > 0 || is_void ? drafts : drafts - 1;
    outcome.accepted = tokens > 0 ? static_cast<std::uint32_t>(tokens) - 1 : 0;
    outcome.match = rows_.match;
    outcome.room = rows_.room;
    state_.counters.drafted_tokens += drafts;
    state_.counters.accepted_drafts += outcome.accepted;
    if (!is_void) state_.counters.wasted_rows += outcome.proposed - outcome.accepted;
    if (state_.drafts != nullptr) state_.drafts->observe(sequence.line, outcome);
  }

  SchedulerState& state_;
  const RowsInFlight& rows_;
};

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, spec::DraftSource* drafts)
    : state_(std::make_unique<SchedulerState>(options, drafts)) {
  PACELINE_CHECK(options.max_running > 0 && options.max_running <= 4096);
}

Scheduler::~Scheduler() = default;

Status Scheduler::submit(Request request) {
  SchedulerState& state = *state_;
  PACELINE_RETURN_IF_ERROR(check_request(request, state.options, state.blocks.capacity_tokens()));
  if (state.requests.contains(request.id)) {
    return fail(ErrorCode::kAlreadyExists, "request {} is here already", request.id.value());
  }
  if (!request.keeps_place && state.never_begun + request.choices > state.options.max_waiting) {
    return fail(ErrorCode::kResourceExhausted,
                "{} answers are waiting, at most {} can; try again later", state.never_begun,
                state.options.max_waiting);
  }
  RequestInWork& work = state.requests[request.id];
  work.open_choices = request.choices;
  work.request = std::move(request);
  const Request& kept = work.request;
  // The last token of an answer needs no KV.
  const std::uint64_t most =
      std::min<std::uint64_t>({kept.prompt.size() + std::uint64_t{kept.max_tokens},
                               state.options.context_tokens, state.blocks.capacity_tokens() + 1});
  const auto moved = state.options.priority_step * kept.priority;
  for (std::uint32_t choice = 0; choice < kept.choices; ++choice) {
    const ChoiceKey key = {kept.id, choice};
    Sequence& sequence = state.sequences[key];
    sequence.key = key;
    sequence.rank = {(kept.arrival - moved).time_since_epoch().count(), key};
    sequence.request = &kept;
    sequence.line = spec::LineId(++state.last_line);
    sequence.tokens = kept.prompt;
    sequence.most_tokens = static_cast<std::uint32_t>(most);
    sequence.branch = ++state.last_branch;
    state.waiting.emplace(sequence.rank, &sequence);
    ++state.never_begun;
    if (state.drafts != nullptr) state.drafts->open(sequence.line, kept.cache_salt);
  }
  return {};
}

Status Scheduler::cancel(RequestId request) {
  const auto found = state_->requests.find(request);
  if (found == state_->requests.end()) {
    return fail(ErrorCode::kNotFound, "request {} is not here", request.value());
  }
  const std::uint32_t choices = found->second.request.choices;
  for (std::uint32_t choice = 0; choice < choices; ++choice) {
    Sequence* sequence = state_->find({request, choice});
    if (sequence != nullptr) state_->remove(*sequence, false);
  }
  return {};
}

Status Scheduler::stop(ChoiceKey choice) {
  Sequence* sequence = state_->find(choice);
  if (sequence == nullptr) {
    return fail(ErrorCode::kNotFound, "answer {} of request {} is not here", choice.choice,
                choice.request.value());
  }
  state_->remove(*sequence, true);
  return {};
}

void Scheduler::set_pipeline(const PipelineShape& shape) {
  PACELINE_CHECK(shape.groups > 0 && shape.steps_in_flight > 0 && shape.step_tokens > 0);
  state_->shape = shape;
}

std::optional<StepPlan> Scheduler::plan(TimePoint now) { return StepPlanner(*state_, now).plan(); }

Result<std::vector<Progress>> Scheduler::commit(StepId step, std::span<const RowSample> samples) {
  SchedulerState& state = *state_;
  if (state.in_flight.empty() || state.in_flight.front().id != step) {
    return fail(ErrorCode::kFailedPrecondition, "step {} is not the oldest in flight",
                step.value());
  }
  PACELINE_ASSIGN_OR_RETURN(const auto counts, SampleCounter(state, samples).count());
  const StepInFlight done = std::move(state.in_flight.front());
  state.in_flight.pop_front();
  std::vector<std::int64_t> tokens;
  tokens.reserve(samples.size());
  for (const RowSample& sample : samples) tokens.push_back(sample.token);
  std::vector<Progress> all;
  std::size_t first = 0;
  for (std::size_t i = 0; i < done.rows.size(); ++i) {
    const auto sampled = std::span<const std::int64_t>(tokens).subspan(first, counts[i]);
    auto progress = RowsSettler(state, done.rows[i]).settle(sampled, first);
    if (progress) all.push_back(std::move(*progress));
    first += counts[i];
  }
  return all;
}

Result<std::vector<Progress>> Scheduler::commit(StepId step,
                                                std::span<const std::int64_t> sampled) {
  std::vector<RowSample> samples;
  if (!state_->in_flight.empty()) {
    const StepInFlight& oldest = state_->in_flight.front();
    if (oldest.id == step && sampled.size() != oldest.samples) {
      return fail(ErrorCode::kInvalidArgument, "step {} gave {} samples, {} were asked for",
                  step.value(), sampled.size(), oldest.samples);
    }
    std::uint32_t first_row = 0;
    for (const RowsInFlight& rows : oldest.rows) {
      for (const std::uint32_t row : rows.sampled_rows) {
        if (samples.size() == sampled.size()) break;
        samples.push_back({first_row + row, sampled[samples.size()]});
      }
      first_row += rows.rows;
    }
  }
  return commit(step, samples);
}

Status Scheduler::rollback(StepId step) {
  SchedulerState& state = *state_;
  const bool is_here = std::any_of(state.in_flight.begin(), state.in_flight.end(),
                                   [&](const StepInFlight& entry) { return entry.id == step; });
  if (!is_here) {
    return fail(ErrorCode::kFailedPrecondition, "step {} is not in flight", step.value());
  }
  std::vector<SequenceId> freed;
  while (!state.in_flight.empty() && state.in_flight.back().id >= step) {
    const StepInFlight& undone = state.in_flight.back();
    for (const RowsInFlight& rows : undone.rows) {
      state.counters.wasted_rows += rows.rows;
      Sequence* sequence = state.find(rows.key);
      if (sequence == nullptr) continue;
      state.drop_rows(*sequence);
      sequence->scored = std::min(sequence->scored, rows.past_tokens);
      if (sequence->is_running()) state.preempt(*sequence);
    }
    freed.insert(freed.begin(), undone.freed.begin(), undone.freed.end());
    state.in_flight.pop_back();
  }
  state.frees.insert(state.frees.begin(), freed.begin(), freed.end());
  state.blocks.forget_since(step.value());
  return {};
}

void Scheduler::reset() {
  SchedulerState& state = *state_;
  if (!state.in_flight.empty()) {
    const Status undone = rollback(state.in_flight.front().id);
    PACELINE_CHECK(undone.has_value());
  }
  while (!state.running.empty()) state.preempt(*state.running.begin()->second);
  state.blocks.forget_since(0);
  state.frees.clear();
}

std::span<const std::int64_t> Scheduler::tokens(ChoiceKey choice) const {
  const Sequence* sequence = state_->find(choice);
  if (sequence == nullptr) return {};
  return sequence->tokens;
}

bool Scheduler::is_idle() const {
  return state_->sequences.empty() && state_->in_flight.empty() && state_->frees.empty();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = state_->counters;
  stats.running = state_->running.size();
  stats.waiting = state_->waiting.size();
  stats.steps_in_flight = state_->in_flight.size();
  stats.available_blocks = state_->blocks.available_blocks();
  stats.cached_blocks = state_->blocks.cached_blocks();
  return stats;
}

}  // namespace paceline::sched
