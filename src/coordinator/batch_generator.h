// Many requests at once over a chain: the scheduler's driver.
//
// A thread of its own plans steps, sends them, and turns their results into tokens and text. The
// policy is sched's; here are the clock, the waiting and the text.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "coordinator/generation.h"
#include "coordinator/pending_request.h"
#include "coordinator/step_runner.h"
#include "coordinator/step_translation.h"
#include "sched/pipeline.h"
#include "sched/scheduler.h"
#include "spec/speculator.h"
#include "text/tokenizer.h"

namespace paceline::coordinator {

/// Whether rows are spent on guesses of the tokens that follow.
enum class Speculation {
  kOff,
  kAuto,    ///< as far as it pays by measured times
  kAlways,  ///< as if rows cost nothing: for tests and measurements
};

/// What a step was, once it is done.
struct StepFacts {
  std::uint32_t rows = 0;
  bool has_prompt = false;                 ///< rows of prompts were in it
  std::span<const wire::StageTime> times;  ///< as the workers gave them
};

struct BatchOptions {
  std::set<std::int64_t> end_tokens;
  std::uint64_t vocabulary_size = 0;  ///< 0: token ids are not checked here
  sched::SchedulerOptions scheduler;
  sched::PipelineOptions pipeline;
  Speculation speculation = Speculation::kAuto;
  spec::DraftModel* draft_model = nullptr;  ///< must outlive the generator
  Duration step_timeout = std::chrono::minutes(10);
  std::string why_no_grammars;   ///< as Chain::why_no_grammars: what has one is refused with this
  std::uint64_t mean_width = 0;  ///< as Chain::mean_width
  std::string why_no_means;      ///< as Chain::why_no_means
  /// Told of each step that is done. With the generator's lock held: must not block, nor ask the
  /// generator.
  std::function<void(const StepFacts& step)> on_step;
};

struct BatchStats {
  sched::SchedulerStats scheduler;
  sched::PipelineShape shape;
  /// Of each stage, the share of the time since the last call that it computed.
  std::vector<double> stage_use;
  Duration use_time{};  ///< since the last call
  TimePoint at{};
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
  /// All that is under way fails with `reason`, and what is asked later is refused with it.
  void end_all(Error reason);

  /// kInvalidArgument where no request can have a grammar; says why.
  Status check_grammars() const;
  /// The same of GenerationRequest::want_mean.
  Status check_means() const;
  std::uint64_t mean_width() const { return options_.mean_width; }

  BatchStats stats();
  /// Why nothing more is answered, also where nothing is asked.
  std::optional<Error> failure();

 private:
  /// Rows of a prompt whose samples are scores.
  struct ScoredRows {
    sched::RequestId request;
    std::uint32_t first_row = 0;  ///< numbered over the step
    std::uint32_t rows = 0;
    std::uint32_t past_tokens = 0;
  };
  struct SentStep {
    StepId planned;
    StepId sent;
    std::uint32_t rows = 0;
    std::uint32_t decode_rows = 0;
    TimePoint sent_at;
    std::vector<ScoredRows> scored;
  };
  /// Calls of listeners, made once the mutex is free.
  using Calls = std::vector<std::function<void()>>;

  Status check(const GenerationRequest& request) const;
  void run(const std::stop_token& stop);
  /// One round of the thread: the calls that came of it.
  Calls advance(std::unique_lock<std::mutex>& lock);
  /// Waits for the oldest step in flight and takes its result, if it is there.
  Status take_result(std::unique_lock<std::mutex>& lock, Calls& calls);
  /// Plans and sends as many steps as may be in flight. With the mutex held.
  Status send_steps();
  wire::SequenceSpec spec_of(const sched::OpenedSequence& opened) const;
  SentStep record(const sched::StepPlan& plan, StepId sent) const;
  void note_begin(const sched::StepPlan& plan);
  Result<std::vector<sched::Progress>> commit(const wire::StepResult& result);
  void take_scores(const SentStep& step, const wire::StepResult& result);
  Status check_mean(const GenerationRequest& asked, std::span<const wire::Sample> samples) const;
  Status give(const sched::Progress& progress, std::span<const wire::Sample> samples, Calls& calls);
  void finish(sched::ChoiceKey key, FinishReason reason, Calls& calls);
  void fail_one(sched::RequestId request, const Error& error, Calls& calls);
  void end_cancelled(Calls& calls);
  void fail_all(const Error& error, Calls& calls);
  void learn(const SentStep& step, const wire::StepResult& result);
  void hear_of_drafts();

  StepRunner& runner_;
  const text::Tokenizer* const tokenizer_;
  const Clock& clock_;
  const BatchOptions options_;
  const std::size_t stages_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  spec::Speculator speculator_;
  sched::Scheduler scheduler_;
  sched::PipelineController pipeline_;
  sched::PipelineShape shape_;
  std::map<sched::RequestId, PendingRequest> requests_;
  std::deque<SentStep> in_flight_;
  StepNumbers numbers_;              ///< of recent steps
  std::optional<Error> end_reason_;  ///< the thread is to fail all
  std::optional<Error> failure_;
  bool has_cancelled_ = false;
  bool awaits_drafts_ = false;  ///< all there is to do waits for the draft model
  std::uint64_t last_request_ = 0;
  double most_sequences_ = 1;  ///< that ran at a time, of late
  TimePoint use_since_;
  std::jthread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::coordinator
