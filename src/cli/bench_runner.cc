#include "cli/bench_runner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace paceline::cli {
namespace {

constexpr auto kSampleInterval = std::chrono::milliseconds(500);
constexpr auto kMemoryInterval = std::chrono::seconds(3);
/// How long a look at cancellations and arrivals may be put off.
constexpr auto kLook = std::chrono::milliseconds(50);

}  // namespace

/// What listeners tell the thread that runs the load.
struct BenchRunner::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, load::RequestRecord> open;
  std::vector<load::RequestRecord> done;
  std::vector<std::uint64_t> ended;
  std::set<std::uint64_t> to_cancel;
  std::uint64_t output_tokens = 0;
  std::optional<Error> failure;
};

class BenchRunner::Listener final : public coordinator::AnswerListener {
 public:
  Listener(std::shared_ptr<Shared> shared, const Clock& clock, TimePoint begin,
           std::uint64_t number, std::optional<std::uint32_t> cancel_after)
      : shared_(std::move(shared)),
        clock_(clock),
        begin_(begin),
        number_(number),
        cancel_after_(cancel_after) {}

  void on_tokens(std::uint32_t, std::span<const wire::Sample> samples, std::string_view) override {
    if (samples.empty()) return;
    const std::lock_guard lock(shared_->mutex);
    load::RequestRecord& record = shared_->open.at(number_);
    const Duration now = clock_.now() - begin_;
    if (record.output_tokens == 0) record.first_token = now;
    record.last_token = now;
    record.output_tokens += static_cast<std::uint32_t>(samples.size());
    record.token_times.insert(record.token_times.end(), samples.size(), now);
    shared_->output_tokens += samples.size();
    if (!cancel_after_ || record.output_tokens < *cancel_after_) return;
    shared_->to_cancel.insert(number_);
    shared_->changed.notify_all();
  }

  void on_finished(std::uint32_t, const coordinator::Generation& generation) override {
    const std::lock_guard lock(shared_->mutex);
    auto node = shared_->open.extract(number_);
    load::RequestRecord& record = node.mapped();
    record.reused_tokens = generation.reused_tokens;
    if (generation.finish_reason == coordinator::FinishReason::kCancelled) {
      record.outcome = load::Outcome::kCancelled;
    }
    shared_->done.push_back(record);
    shared_->ended.push_back(number_);
    shared_->changed.notify_all();
  }

  void on_failed(const Error& error) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->failure = error;
    shared_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const Clock& clock_;
  const TimePoint begin_;
  const std::uint64_t number_;
  const std::optional<std::uint32_t> cancel_after_;
};

BenchRunner::BenchRunner(coordinator::BatchGenerator& generator, const Clock& clock,
                         BenchOptions options)
    : generator_(generator),
      clock_(clock),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>()) {}

bool BenchRunner::may_send(const load::PlannedRequest& request, Duration now) const {
  if (request.arrival > Duration()) return request.arrival <= now;
  return ids_.size() < options_.concurrency;
}

void BenchRunner::send(load::PlannedRequest planned) {
  coordinator::GenerationRequest request = options_.request;
  load::RequestRecord record;
  // A late submission is the chain's delay, not the request's.
  record.arrival = planned.arrival > Duration() ? planned.arrival : elapsed();
  record.prompt_tokens = static_cast<std::uint32_t>(planned.prompt.size());
  request.prompt = std::move(planned.prompt);
  request.max_tokens = planned.output_tokens;
  request.sampling.seed = planned.seed;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->open.emplace(planned.number, record);
    if (planned.cancel_after == 0U) shared_->to_cancel.insert(planned.number);
  }
  const auto id = generator_.submit(
      std::move(request),
      std::make_shared<Listener>(shared_, clock_, begin_, planned.number, planned.cancel_after));
  if (id) {
    ids_.emplace(planned.number, *id);
    return;
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->open.erase(planned.number);
  shared_->to_cancel.erase(planned.number);
  record.outcome = load::Outcome::kRefused;
  shared_->done.push_back(record);
}

/// What listeners wished for, outside of their calls.
void BenchRunner::cancel_due() {
  std::vector<sched::RequestId> due;
  {
    const std::lock_guard lock(shared_->mutex);
    for (const std::uint64_t number : shared_->to_cancel) {
      if (const auto id = ids_.find(number); id != ids_.end()) due.push_back(id->second);
    }
    shared_->to_cancel.clear();
    for (const std::uint64_t number : shared_->ended) ids_.erase(number);
    shared_->ended.clear();
  }
  for (const sched::RequestId id : due) generator_.cancel(id);
}

void BenchRunner::cancel_all() {
  for (const auto& [number, id] : ids_) generator_.cancel(id);
}

void BenchRunner::sample() {
  const double now = to_seconds(elapsed());
  const double since = result_.samples.empty() ? 0 : result_.samples.back().seconds;
  const coordinator::BatchStats stats = generator_.stats();
  BenchSample sample{now, stats.scheduler.running, stats.scheduler.waiting,
                     0,   stats.stage_use,         stats.shape};
  {
    const std::lock_guard lock(shared_->mutex);
    sample.output_tokens = shared_->output_tokens;
  }
  busy_s_.resize(stats.stage_use.size());
  for (std::size_t stage = 0; stage < busy_s_.size(); ++stage) {
    busy_s_[stage] += stats.stage_use[stage] * (now - since);
  }
  result_.samples.push_back(std::move(sample));
}

Status BenchRunner::sample_memory() {
  if (!options_.resident_bytes) return {};
  const double now = to_seconds(elapsed());
  const auto& before = result_.resident_bytes;
  if (!before.empty() && now - before.back().first < to_seconds(kMemoryInterval)) return {};
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t bytes, options_.resident_bytes());
  result_.resident_bytes.emplace_back(now, bytes);
  return {};
}

Result<BenchResult> BenchRunner::run(load::LoadPlan& plan, const std::atomic<bool>& interrupted) {
  result_.before = generator_.stats();
  begin_ = clock_.now();
  auto next = plan.next();
  TimePoint sampled_at = begin_;
  for (;;) {
    cancel_due();
    const bool is_over = options_.duration > Duration() && elapsed() >= options_.duration;
    if (is_over || interrupted.load()) next.reset();
    if (interrupted.load()) cancel_all();
    while (next && may_send(*next, elapsed())) {
      send(*std::move(next));
      next = plan.next();
    }
    if (!next && ids_.empty()) break;
    if (clock_.now() - sampled_at >= kSampleInterval) {
      sampled_at = clock_.now();
      sample();
      PACELINE_RETURN_IF_ERROR(sample_memory());
    }
    std::unique_lock lock(shared_->mutex);
    if (shared_->failure) return fail(*shared_->failure);
    Duration pause = kLook;
    if (next && next->arrival > elapsed()) pause = std::min(pause, next->arrival - elapsed());
    shared_->changed.wait_for(lock, pause, [this] {
      return shared_->failure || !shared_->ended.empty() || !shared_->to_cancel.empty();
    });
  }
  sample();
  const double total = result_.samples.back().seconds;
  for (const double busy : busy_s_) result_.stage_use.push_back(total > 0 ? busy / total : 0);
  result_.after = generator_.stats();
  const std::lock_guard lock(shared_->mutex);
  result_.records = shared_->done;
  return std::move(result_);
}

}  // namespace paceline::cli
