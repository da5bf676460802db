#include "coordinator/batch_generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::coordinator {
namespace {

/// Steps whose numbers are kept for references, beyond those in flight.
constexpr std::size_t kKeptNumbers = 128;
/// By how much what was seen once counts less with each step.
constexpr double kFade = 0.99;

}  // namespace

BatchGenerator::BatchGenerator(StepRunner& runner, std::size_t stages,
                               const text::Tokenizer* tokenizer, const Clock& clock,
                               const BatchOptions& options)
    : runner_(runner),
      tokenizer_(tokenizer),
      clock_(clock),
      options_(options),
      stages_(stages),
      speculator_(spec::SpeculatorOptions(), options.draft_model),
      scheduler_(options.scheduler,
                 options.speculation == Speculation::kOff ? nullptr : &speculator_),
      pipeline_(stages, options.pipeline),
      shape_(pipeline_.shape(1)),
      use_since_(clock.now()) {
  scheduler_.set_pipeline(shape_);
  if (options_.draft_model != nullptr) {
    options_.draft_model->set_listener([this] { hear_of_drafts(); });
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

BatchGenerator::~BatchGenerator() {
  if (options_.draft_model != nullptr) options_.draft_model->set_listener({});
  thread_.request_stop();
  runner_.wake();
  thread_.join();
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, request] : requests_) request.is_cancelled = true;
    has_cancelled_ = true;
    end_cancelled(calls);
  }
  for (const auto& call : calls) call();
}

BatchStats BatchGenerator::stats() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  const Duration elapsed = now - std::exchange(use_since_, now);
  return {scheduler_.stats(), shape_, pipeline_.take_use(to_microseconds(elapsed)), elapsed, now};
}

std::optional<Error> BatchGenerator::failure() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return failure_;
  }
  return runner_.failure();
}

void BatchGenerator::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const Calls calls = advance(lock);
    if (!calls.empty()) {
      lock.unlock();
      for (const auto& call : calls) call();
      lock.lock();
      continue;
    }
    const auto has_work = [this] {
      const bool can_plan = !failure_ && !scheduler_.is_idle() && !awaits_drafts_;
      return has_cancelled_ || end_reason_ || !in_flight_.empty() || can_plan;
    };
    changed_.wait(lock, stop, has_work);
  }
}

/// On the draft model's thread: steps that wait for it can be planned.
void BatchGenerator::hear_of_drafts() {
  const std::lock_guard lock(mutex_);
  awaits_drafts_ = false;
  changed_.notify_all();
  runner_.wake();
}

BatchGenerator::Calls BatchGenerator::advance(std::unique_lock<std::mutex>& lock) {
  Calls calls;
  if (has_cancelled_) end_cancelled(calls);
  if (end_reason_) fail_all(*std::exchange(end_reason_, std::nullopt), calls);
  if (failure_) return calls;
  Status status = send_steps();
  awaits_drafts_ = in_flight_.empty() && options_.draft_model != nullptr;
  if (status && calls.empty() && !in_flight_.empty()) status = take_result(lock, calls);
  if (!status) fail_all(status.error(), calls);
  return calls;
}

Status BatchGenerator::take_result(std::unique_lock<std::mutex>& lock, Calls& calls) {
  const StepId oldest = in_flight_.front().sent;
  const auto deadline = Deadline::after(options_.step_timeout, clock_.now());
  lock.unlock();
  auto result = runner_.await(oldest, deadline);
  lock.lock();
  if (!result) return fail(std::move(result).error());
  if (!*result) return {};  // woken
  PACELINE_ASSIGN_OR_RETURN(const auto all, commit(**result));
  // The stages go on while the tokens become text.
  PACELINE_RETURN_IF_ERROR(send_steps());
  for (const sched::Progress& progress : all) {
    const auto samples =
        std::span((*result)->samples).subspan(progress.first_sample, progress.tokens.size());
    PACELINE_RETURN_IF_ERROR(give(progress, samples, calls));
  }
  return {};
}

Status BatchGenerator::send_steps() {
  while (auto plan = scheduler_.plan(clock_.now())) {
    note_begin(*plan);
    wire::Step step =
        translate(*plan, numbers_, [this](const auto& opened) { return spec_of(opened); });
    PACELINE_ASSIGN_OR_RETURN(const StepId sent, runner_.submit(std::move(step)));
    numbers_.emplace(plan->id, sent);
    if (numbers_.size() > kKeptNumbers) numbers_.erase(numbers_.begin());
    in_flight_.push_back(record(*plan, sent));
  }
  return {};
}

BatchGenerator::SentStep BatchGenerator::record(const sched::StepPlan& plan, StepId sent) const {
  SentStep step;
  step.planned = plan.id;
  step.sent = sent;
  step.sent_at = clock_.now();
  for (const sched::PlannedRows& rows : plan.sequences) {
    const auto count = static_cast<std::uint32_t>(rows.tokens.size());
    const auto request = requests_.find(rows.key.request);
    if (request != requests_.end() && request->second.asked().want_prompt_logprobs &&
        rows.key.choice == 0) {
      step.scored.push_back({rows.key.request, step.rows, count, rows.past_tokens});
    }
    step.rows += count;
    if (count <= 1 + rows.drafts) step.decode_rows += count;
  }
  return step;
}

wire::SequenceSpec BatchGenerator::spec_of(const sched::OpenedSequence& opened) const {
  const GenerationRequest& asked = requests_.at(opened.key.request).asked();
  wire::SequenceSpec spec;
  spec.sequence = opened.sequence;
  spec.sampling = asked.sampling;
  spec.sampling.choice += opened.key.choice;
  spec.want_logits_digest = asked.want_logits_digests;
  spec.want_mean = asked.want_mean;
  spec.prompt_tokens = static_cast<std::uint32_t>(asked.prompt.size());
  if (asked.needs_history()) {
    const auto known = scheduler_.tokens(opened.key).first(opened.history_tokens);
    spec.history.assign(known.begin(), known.end());
  }
  return spec;
}

/// What an opened sequence finds in the cache is told to who asked.
void BatchGenerator::note_begin(const sched::StepPlan& plan) {
  for (const sched::OpenedSequence& opened : plan.opened) {
    const auto request = requests_.find(opened.key.request);
    if (request == requests_.end()) continue;
    for (const sched::PlannedRows& rows : plan.sequences) {
      if (rows.sequence != opened.sequence) continue;
      request->second.note_begin(opened.key.choice, rows.past_tokens, clock_.now());
    }
  }
}

Result<std::vector<sched::Progress>> BatchGenerator::commit(const wire::StepResult& result) {
  const SentStep step = std::move(in_flight_.front());
  std::vector<sched::RowSample> samples;
  samples.reserve(result.samples.size());
  for (const wire::Sample& sample : result.samples) samples.push_back({sample.row, sample.token});
  PACELINE_ASSIGN_OR_RETURN(auto all, scheduler_.commit(step.planned, samples));
  in_flight_.pop_front();
  take_scores(step, result);
  learn(step, result);
  return all;
}

void BatchGenerator::take_scores(const SentStep& step, const wire::StepResult& result) {
  for (const ScoredRows& rows : step.scored) {
    const auto request = requests_.find(rows.request);
    if (request == requests_.end()) continue;
    for (const wire::Sample& sample : result.samples) {
      if (sample.row < rows.first_row || sample.row >= rows.first_row + rows.rows) continue;
      request->second.add_score(rows.past_tokens + sample.row - rows.first_row + 1, sample);
    }
  }
}

/// Measured times become the next steps' shape.
void BatchGenerator::learn(const SentStep& step, const wire::StepResult& result) {
  double stages_us = 0;
  for (const wire::StageTime& time : result.stage_times) {
    if (time.stage.value() >= stages_) continue;
    pipeline_.observe_stage(time.stage.value(), step.rows, static_cast<double>(time.compute_us));
    stages_us += static_cast<double>(time.compute_us + time.queue_us);
  }
  if (options_.on_step) {
    options_.on_step({step.rows, step.rows > step.decode_rows, result.stage_times});
  }
  if (step.rows > 0) {
    pipeline_.observe_cycle(step.rows, to_microseconds(clock_.now() - step.sent_at), stages_us);
    pipeline_.observe_load(step.rows - step.decode_rows, step.decode_rows);
  }
  const sched::SchedulerStats stats = scheduler_.stats();
  // Those that wait count as far as there was room for as many of late.
  most_sequences_ = std::max({1.0, most_sequences_ * kFade, static_cast<double>(stats.running)});
  const auto sequences = std::min(static_cast<std::size_t>(std::ceil(most_sequences_)),
                                  std::max<std::size_t>(1, stats.running + stats.waiting));
  // One that goes on before its drafts are verified stands in several steps at a time.
  shape_ =
      pipeline_.shape(static_cast<std::uint32_t>(sequences * (1 + options_.scheduler.steps_ahead)));
  scheduler_.set_pipeline(shape_);
  if (options_.speculation == Speculation::kAuto) {
    speculator_.set_cost(pipeline_.step_cost(shape_.groups));
  }
}

/// A last stage that gives another than it promised is not to be trusted any further.
Status BatchGenerator::check_mean(const GenerationRequest& asked,
                                  std::span<const wire::Sample> samples) const {
  if (!asked.want_mean || samples.back().mean.size() == options_.mean_width) return {};
  return fail(ErrorCode::kInternal,
              "the last stage gave a mean of {} values for a prompt, expected {}",
              samples.back().mean.size(), options_.mean_width);
}

Status BatchGenerator::give(const sched::Progress& progress, std::span<const wire::Sample> samples,
                            Calls& calls) {
  const auto found = requests_.find(progress.key.request);
  if (found == requests_.end() || found->second.is_cancelled) return {};
  PendingRequest& request = found->second;
  for (const wire::Sample& sample : samples) {
    if (sample.failure.empty()) continue;
    fail_one(progress.key.request, Error(ErrorCode::kInvalidArgument, sample.failure), calls);
    return {};
  }
  const bool is_end = progress.is_finished && progress.reason == sched::FinishReason::kEndToken;
  const bool wants_mean = request.asked().want_mean;
  PACELINE_RETURN_IF_ERROR(check_mean(request.asked(), samples));
  PACELINE_ASSIGN_OR_RETURN(auto piece,
                            request.add(progress.key.choice, samples, is_end, clock_.now()));
  const bool is_stopped = piece.is_stopped;
  if (!wants_mean) {
    calls.push_back(
        [listener = request.listener(), choice = progress.key.choice, piece = std::move(piece)] {
          listener->on_tokens(choice, piece.taken, piece.text);
        });
  }
  if (is_stopped && !progress.is_finished) (void)scheduler_.stop(progress.key);
  if (!is_stopped && !progress.is_finished) return {};
  const bool is_whole = is_stopped || is_end || wants_mean;
  finish(progress.key, is_whole ? FinishReason::kStop : FinishReason::kLength, calls);
  return {};
}

void BatchGenerator::finish(sched::ChoiceKey key, FinishReason reason, Calls& calls) {
  const auto found = requests_.find(key.request);
  PendingRequest& request = found->second;
  PendingRequest::Finished finished = request.finish(key.choice, reason);
  calls.push_back(
      [listener = request.listener(), choice = key.choice, finished = std::move(finished)] {
        if (!finished.rest.empty()) listener->on_tokens(choice, {}, finished.rest);
        listener->on_finished(choice, finished.generation);
      });
  if (request.is_over()) requests_.erase(found);
}

/// All answers of one request; the others go on.
void BatchGenerator::fail_one(sched::RequestId request, const Error& error, Calls& calls) {
  (void)scheduler_.cancel(request);  // it may have ended there with its last commit
  const auto found = requests_.find(request);
  calls.push_back([listener = found->second.listener(), error] { listener->on_failed(error); });
  requests_.erase(found);
}

void BatchGenerator::end_cancelled(Calls& calls) {
  has_cancelled_ = false;
  std::vector<sched::ChoiceKey> ended;
  for (const auto& [id, request] : requests_) {
    if (!request.is_cancelled) continue;
    for (const std::uint32_t choice : request.open_choices()) ended.push_back({id, choice});
  }
  for (const sched::ChoiceKey key : ended) finish(key, FinishReason::kCancelled, calls);
}

void BatchGenerator::fail_all(const Error& error, Calls& calls) {
  failure_ = error;
  in_flight_.clear();
  scheduler_.reset();
  for (auto& [id, request] : requests_) {
    (void)scheduler_.cancel(id);
    calls.push_back([listener = request.listener(), error] { listener->on_failed(error); });
  }
  requests_.clear();
}

}  // namespace paceline::coordinator
