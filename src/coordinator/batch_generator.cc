#include "coordinator/batch_generator.h"

#include <algorithm>
#include <utility>

namespace paceline::coordinator {
namespace {

/// Steps whose numbers are kept for references, beyond those in flight.
constexpr std::size_t kKeptNumbers = 128;

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

BatchGenerator::BatchGenerator(StepRunner& runner, std::size_t stages,
                               const text::Tokenizer* tokenizer, const Clock& clock,
                               const BatchOptions& options)
    : runner_(runner),
      tokenizer_(tokenizer),
      clock_(clock),
      options_(options),
      speculator_(spec::SpeculatorOptions()),
      scheduler_(options.scheduler, options.speculates ? &speculator_ : nullptr),
      pipeline_(stages, options.pipeline),
      use_since_(clock.now()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

BatchGenerator::~BatchGenerator() {
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

Status BatchGenerator::check(const GenerationRequest& request) const {
  if (request.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "max tokens is 0");
  return sampling::check(request.sampling);
}

Result<sched::RequestId> BatchGenerator::submit(GenerationRequest request,
                                                std::shared_ptr<AnswerListener> listener) {
  PACELINE_RETURN_IF_ERROR(check(request));
  const std::lock_guard lock(mutex_);
  if (failure_) return fail(*failure_);
  const sched::RequestId id(last_request_ + 1);
  Request entry;
  entry.arrival = clock_.now();
  for (std::uint32_t choice = 0; choice < request.choices; ++choice) {
    PACELINE_ASSIGN_OR_RETURN(auto text, AnswerText::create(tokenizer_, request.stop));
    Answer answer{std::move(text), {}, {}};
    answer.generation.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    entry.answers.emplace(choice, std::move(answer));
  }
  sched::Request asked;
  asked.id = id;
  asked.prompt = request.prompt;
  asked.max_tokens = request.max_tokens;
  asked.choices = request.choices;
  asked.priority = request.priority;
  asked.arrival = entry.arrival;
  asked.cache_salt = request.cache_salt;
  if (!request.ignore_eos) {
    asked.end_tokens.assign(options_.end_tokens.begin(), options_.end_tokens.end());
  }
  PACELINE_RETURN_IF_ERROR(scheduler_.submit(std::move(asked)));
  last_request_ = id.value();
  entry.asked = std::move(request);
  entry.listener = std::move(listener);
  requests_.emplace(id, std::move(entry));
  changed_.notify_all();
  runner_.wake();
  return id;
}

void BatchGenerator::cancel(sched::RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(request);
  if (found == requests_.end() || found->second.is_cancelled) return;
  (void)scheduler_.cancel(request);  // it may have ended there with its last commit
  found->second.is_cancelled = true;
  has_cancelled_ = true;
  changed_.notify_all();
  runner_.wake();
}

BatchStats BatchGenerator::stats() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  const double elapsed = microseconds(now - std::exchange(use_since_, now));
  return {scheduler_.stats(), shape_, pipeline_.take_use(elapsed)};
}

void BatchGenerator::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    Calls calls;
    if (has_cancelled_) end_cancelled(calls);
    Status status = failure_ ? Status() : send_steps();
    if (status && !in_flight_.empty() && calls.empty()) {
      const SentStep& oldest = in_flight_.front();
      const auto deadline = Deadline::after(options_.step_timeout, clock_.now());
      lock.unlock();
      auto result = runner_.await(oldest.sent, deadline);
      lock.lock();
      if (!result) {
        status = fail(std::move(result).error());
      } else if (*result) {
        status = commit(**result, calls);
      }
    }
    if (!status) fail_all(status.error(), calls);
    if (calls.empty()) {
      const auto has_work = [&] {
        return has_cancelled_ || !in_flight_.empty() || (!failure_ && !scheduler_.is_idle());
      };
      changed_.wait(lock, stop, has_work);
      continue;
    }
    lock.unlock();
    for (const auto& call : calls) call();
    lock.lock();
  }
}

Status BatchGenerator::send_steps() {
  while (auto plan = scheduler_.plan(clock_.now())) {
    note_reuse(*plan);
    wire::Step step = translate(*plan, numbers_, [this](const auto& opened) { return spec_of(opened); });
    PACELINE_ASSIGN_OR_RETURN(const StepId sent, runner_.submit(std::move(step)));
    numbers_.emplace(plan->id, sent);
    if (numbers_.size() > kKeptNumbers) numbers_.erase(numbers_.begin());
    in_flight_.push_back({plan->id, sent, plan->rows(), clock_.now()});
  }
  return {};
}

wire::SequenceSpec BatchGenerator::spec_of(const sched::OpenedSequence& opened) const {
  const GenerationRequest& asked = requests_.at(opened.key.request).asked;
  wire::SequenceSpec spec;
  spec.sequence = opened.sequence;
  spec.sampling = asked.sampling;
  spec.sampling.choice += opened.key.choice;
  spec.want_logits_digest = asked.want_logits_digests;
  return spec;
}

/// What an opened sequence finds in the cache is told to who asked.
void BatchGenerator::note_reuse(const sched::StepPlan& plan) {
  for (const sched::OpenedSequence& opened : plan.opened) {
    const auto request = requests_.find(opened.key.request);
    if (request == requests_.end()) continue;
    const auto answer = request->second.answers.find(opened.key.choice);
    if (answer == request->second.answers.end()) continue;
    Generation& generation = answer->second.generation;
    if (!generation.tokens.empty()) continue;  // preempted and computed again
    for (const sched::PlannedRows& rows : plan.sequences) {
      if (rows.sequence == opened.sequence && !rows.fork_from) {
        generation.reused_tokens = rows.past_tokens;
      }
    }
  }
}

Status BatchGenerator::commit(const wire::StepResult& result, Calls& calls) {
  const SentStep step = in_flight_.front();
  std::vector<std::int64_t> tokens;
  tokens.reserve(result.samples.size());
  for (const wire::Sample& sample : result.samples) tokens.push_back(sample.token);
  PACELINE_ASSIGN_OR_RETURN(const auto all, scheduler_.commit(step.planned, tokens));
  in_flight_.pop_front();
  learn(step, result);
  for (const sched::Progress& progress : all) {
    const auto samples =
        std::span(result.samples).subspan(progress.first_sample, progress.tokens.size());
    PACELINE_RETURN_IF_ERROR(give(progress, samples, calls));
  }
  return {};
}

/// Measured times become the next steps' shape.
void BatchGenerator::learn(const SentStep& step, const wire::StepResult& result) {
  double stages_us = 0;
  for (const wire::StageTime& time : result.stage_times) {
    pipeline_.observe_stage(time.stage.value(), step.rows, static_cast<double>(time.compute_us));
    stages_us += static_cast<double>(time.compute_us + time.queue_us);
  }
  pipeline_.observe_cycle(step.rows, microseconds(clock_.now() - step.sent_at), stages_us);
  shape_ = pipeline_.shape(static_cast<std::uint32_t>(scheduler_.stats().running));
  scheduler_.set_pipeline(shape_);
  speculator_.set_cost(pipeline_.step_cost(shape_.groups));
}

Status BatchGenerator::give(const sched::Progress& progress, std::span<const wire::Sample> samples,
                            Calls& calls) {
  const auto found = requests_.find(progress.key.request);
  if (found == requests_.end() || found->second.is_cancelled) return {};
  Request& request = found->second;
  Answer& answer = request.answers.at(progress.key.choice);
  const bool is_end = progress.is_finished && progress.reason == sched::FinishReason::kEndToken;
  if (answer.generation.tokens.empty()) answer.first_token_at = clock_.now();
  std::string shown;
  bool stopped = false;
  std::vector<wire::Sample> taken;
  for (const wire::Sample& sample : samples) {
    taken.push_back(sample);
    answer.generation.tokens.push_back(sample.token);
    answer.generation.logprobs.push_back(sample.logprob);
    if (request.asked.want_logits_digests) {
      answer.generation.logits_digests.push_back(sample.logits_digest);
    }
    if (is_end && taken.size() == samples.size()) break;  // an end token has no text
    PACELINE_ASSIGN_OR_RETURN(auto piece, answer.text.push(sample.token));
    shown += piece.text;
    stopped = piece.stopped;
    if (stopped) break;
  }
  answer.generation.text += shown;
  calls.push_back([listener = request.listener, choice = progress.key.choice,
                   taken = std::move(taken), shown = std::move(shown)] {
    listener->on_tokens(choice, taken, shown);
  });
  if (stopped && !progress.is_finished) (void)scheduler_.stop(progress.key);
  if (!stopped && !progress.is_finished) return {};
  finish(progress.key, stopped || is_end ? FinishReason::kStop : FinishReason::kLength, calls);
  return {};
}

void BatchGenerator::finish(sched::ChoiceKey key, FinishReason reason, Calls& calls) {
  const auto found = requests_.find(key.request);
  Request& request = found->second;
  auto node = request.answers.extract(key.choice);
  Answer& answer = node.mapped();
  Generation& generation = answer.generation;
  generation.finish_reason = reason;
  // After a stop string the matcher gives nothing more.
  if (auto rest = answer.text.finish(); rest && !rest->empty()) {
    generation.text += *rest;
    calls.push_back([listener = request.listener, choice = key.choice, rest = *std::move(rest)] {
      listener->on_tokens(choice, {}, rest);
    });
  }
  if (!generation.tokens.empty()) {
    generation.time_to_first_token = answer.first_token_at - request.arrival;
    generation.decode_time = clock_.now() - answer.first_token_at;
  }
  calls.push_back([listener = request.listener, choice = key.choice,
                   generation = std::move(generation)] {
    listener->on_finished(choice, generation);
  });
  if (request.answers.empty()) requests_.erase(found);
}

void BatchGenerator::end_cancelled(Calls& calls) {
  has_cancelled_ = false;
  std::vector<sched::ChoiceKey> ended;
  for (const auto& [id, request] : requests_) {
    if (!request.is_cancelled) continue;
    for (const auto& [choice, answer] : request.answers) ended.push_back({id, choice});
  }
  for (const sched::ChoiceKey key : ended) finish(key, FinishReason::kCancelled, calls);
}

void BatchGenerator::fail_all(const Error& error, Calls& calls) {
  failure_ = error;
  in_flight_.clear();
  scheduler_.reset();
  for (auto& [id, request] : requests_) {
    (void)scheduler_.cancel(id);
    calls.push_back([listener = request.listener, error] { listener->on_failed(error); });
  }
  requests_.clear();
}

namespace {

/// One answer, for a thread that waits for it.
class WaitingListener final : public AnswerListener {
 public:
  explicit WaitingListener(const std::function<void(std::string_view)>& on_text)
      : on_text_(on_text) {}

  void on_tokens(std::uint32_t, std::span<const wire::Sample>, std::string_view text) override {
    if (on_text_ && !text.empty()) on_text_(text);
  }
  void on_finished(std::uint32_t, const Generation& generation) override { end(generation); }
  void on_failed(const Error& error) override { end(fail(error)); }

  /// None where the time is over.
  std::optional<Result<Generation>> wait_for(Duration time) {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, time, [&] { return result_.has_value(); });
    return result_;
  }

 private:
  void end(Result<Generation> result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    ended_.notify_all();
  }

  const std::function<void(std::string_view)>& on_text_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Result<Generation>> result_;
};

}  // namespace

Result<Generation> generate(BatchGenerator& generator, GenerationRequest request,
                            const std::function<void(std::string_view)>& on_text,
                            const std::atomic<bool>& cancelled) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  const auto listener = std::make_shared<WaitingListener>(on_text);
  PACELINE_ASSIGN_OR_RETURN(const auto id, generator.submit(std::move(request), listener));
  while (true) {
    if (auto result = listener->wait_for(kLook)) return *std::move(result);
    if (cancelled.load()) generator.cancel(id);
  }
}

}  // namespace paceline::coordinator
