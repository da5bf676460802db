// Many requests at once over a chain: the scheduler's driver.
//
// A thread of its own plans steps, sends them, and turns their results into tokens and text. The
// policy is sched's; here are the clock, the waiting and the text.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "coordinator/answer_text.h"
#include "coordinator/generation.h"
#include "coordinator/step_runner.h"
#include "coordinator/step_translation.h"
#include "sched/pipeline.h"
#include "sched/scheduler.h"
#include "spec/speculator.h"
#include "text/tokenizer.h"

namespace paceline::coordinator {

/// Who asked. Called on the generator's thread, one call at a time: hand over and return.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  /// New tokens of an answer, and what is to be shown for them (maybe nothing yet). Without tokens:
  /// text that was held back, at the end.
  virtual void on_tokens(std::uint32_t choice, std::span<const wire::Sample> samples,
                         std::string_view text) = 0;
  /// The last call for this answer.
  virtual void on_finished(std::uint32_t choice, const Generation& generation) = 0;
  /// The last call for all answers of the request that are not finished: the chain failed.
  virtual void on_failed(const Error& error) = 0;
};

struct BatchOptions {
  std::set<std::int64_t> end_tokens;
  sched::SchedulerOptions scheduler;
  sched::PipelineOptions pipeline;
  bool speculates = true;
  Duration step_timeout = std::chrono::minutes(10);
};

struct BatchStats {
  sched::SchedulerStats scheduler;
  sched::PipelineShape shape;
  /// Of each stage, the share of the time since the last call that it computed.
  std::vector<double> stage_use;
};

/// Lifecycle: runs from the constructor to the destructor, which ends what is left as cancelled.
/// Thread-safe. The runner, the tokenizer (or nullptr) and the clock must outlive it.
class BatchGenerator {
 public:
  BatchGenerator(StepRunner& runner, std::size_t stages, const text::Tokenizer* tokenizer,
                 const Clock& clock, const BatchOptions& options);
  ~BatchGenerator();

  /// Refuses at once what can never run (kInvalidArgument, with the numbers), what there is no room
  /// for (kResourceExhausted), and everything after the chain has failed (the chain's error).
  Result<sched::RequestId> submit(GenerationRequest request,
                                  std::shared_ptr<AnswerListener> listener);
  /// Its answers end as kCancelled, and every stage hears of it with the next step. Nothing where
  /// the request is over.
  void cancel(sched::RequestId request);

  BatchStats stats();

 private:
  struct Answer {
    AnswerText text;
    Generation generation;
    TimePoint first_token_at;
  };
  struct Request {
    GenerationRequest asked;
    std::shared_ptr<AnswerListener> listener;
    TimePoint arrival;
    std::map<std::uint32_t, Answer> answers;  ///< that are not finished
    bool is_cancelled = false;
  };
  struct SentStep {
    StepId planned;
    StepId sent;
    std::uint32_t rows = 0;
    TimePoint sent_at;
  };
  /// Calls of listeners, made once the mutex is free.
  using Calls = std::vector<std::function<void()>>;

  Status check(const GenerationRequest& request) const;
  void run(const std::stop_token& stop);
  /// Plans and sends as many steps as may be in flight. With the mutex held.
  Status send_steps();
  wire::SequenceSpec spec_of(const sched::OpenedSequence& opened) const;
  void note_reuse(const sched::StepPlan& plan);
  Status commit(const wire::StepResult& result, Calls& calls);
  Status give(const sched::Progress& progress, std::span<const wire::Sample> samples, Calls& calls);
  void finish(sched::ChoiceKey key, FinishReason reason, Calls& calls);
  void end_cancelled(Calls& calls);
  void fail_all(const Error& error, Calls& calls);
  void learn(const SentStep& step, const wire::StepResult& result);

  StepRunner& runner_;
  const text::Tokenizer* const tokenizer_;
  const Clock& clock_;
  const BatchOptions options_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  spec::Speculator speculator_;
  sched::Scheduler scheduler_;
  sched::PipelineController pipeline_;
  sched::PipelineShape shape_;
  std::map<sched::RequestId, Request> requests_;
  std::deque<SentStep> in_flight_;
  StepNumbers numbers_;  ///< of recent steps
  std::optional<Error> failure_;
  bool has_cancelled_ = false;
  std::uint64_t last_request_ = 0;
  TimePoint use_since_;
  std::jthread thread_;  ///< the last: it uses all the others
};

/// Asks and waits. `on_text` gets text as it comes; `cancelled` is looked at all the time.
Result<Generation> generate(BatchGenerator& generator, GenerationRequest request,
                            const std::function<void(std::string_view)>& on_text,
                            const std::atomic<bool>& cancelled);

}  // namespace paceline::coordinator
