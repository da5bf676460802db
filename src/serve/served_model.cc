#include "serve/served_model.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace paceline::serve {
namespace {

/// What submit() refuses for the request's sake; all else is the chain's end.
bool is_about_the_request(ErrorCode code) {
  return code == ErrorCode::kInvalidArgument || code == ErrorCode::kResourceExhausted;
}

}  // namespace

ServedModel::ServedModel(Parts parts) : parts_(std::move(parts)) {
  if (parts_.generator != nullptr) last_look_ = load();
}

ServedModel::~ServedModel() {
  if (parts_.metrics == nullptr) return;
  parts_.metrics->set_requests(0, 0);
  parts_.metrics->set_kv_cache_use(0);
  parts_.metrics->set_bubble_ratio(0);
}

Result<sched::RequestId> ServedModel::submit(
    coordinator::GenerationRequest request, std::shared_ptr<coordinator::AnswerListener> listener) {
  auto id = parts_.generator->submit(std::move(request), std::move(listener));
  if (!id && !is_about_the_request(id.error().code())) note_failure(id.error());
  return id;
}

ModelLoad ServedModel::load() {
  const std::lock_guard lock(mutex_);
  // The generator tells of the time since it was asked last, whoever asked.
  const coordinator::BatchStats stats = parts_.generator->stats();
  stage_busy_s_.resize(stats.stage_use.size());
  for (std::size_t stage = 0; stage < stage_busy_s_.size(); ++stage) {
    stage_busy_s_[stage] += stats.stage_use[stage] * to_seconds(stats.use_time);
  }
  return {stats.scheduler, stage_busy_s_, stats.at};
}

std::vector<StageView> ServedModel::stages() const {
  return parts_.stages ? parts_.stages() : std::vector<StageView>();
}

double kv_use(const ModelLoad& load, const ModelFacts& facts) {
  if (facts.kv_blocks == 0) return 0;
  return 1 - static_cast<double>(load.scheduler.available_blocks) / facts.kv_blocks;
}

std::vector<double> stage_use(const ModelLoad& before, const ModelLoad& now) {
  std::vector<double> use(now.stage_busy_s.size(), 0.0);
  const double elapsed = to_seconds(now.at - before.at);
  for (std::size_t stage = 0; stage < use.size() && elapsed > 0; ++stage) {
    const double earlier = stage < before.stage_busy_s.size() ? before.stage_busy_s[stage] : 0.0;
    use[stage] = std::clamp((now.stage_busy_s[stage] - earlier) / elapsed, 0.0, 1.0);
  }
  return use;
}

Status ServedModel::check_grammar(const GrammarSpec& spec) {
  PACELINE_RETURN_IF_ERROR(parts_.generator->check_grammars());
  if (parts_.tokenizer == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "grammar: the model has no tokenizer");
  }
  {
    const std::lock_guard lock(grammar_mutex_);
    if (std::find(good_.begin(), good_.end(), spec) != good_.end()) return {};
    if (!vocabulary_) {
      PACELINE_ASSIGN_OR_RETURN(vocabulary_, text::GrammarVocabulary::create(*parts_.tokenizer));
    }
  }
  const auto compiled = vocabulary_->compile(spec);
  if (!compiled) return fail(compiled.error());
  const std::lock_guard lock(grammar_mutex_);
  good_.push_back(spec);
  if (good_.size() > kKeptGrammars) good_.pop_front();
  return {};
}

void ServedModel::end_all(Error reason) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = reason;  // not the chain's: nobody is to call it that
  }
  parts_.generator->end_all(std::move(reason));
}

void ServedModel::look() {
  if (parts_.metrics == nullptr) return;
  const ModelLoad now = load();
  std::vector<double> shares;
  {
    const std::lock_guard lock(mutex_);
    shares = stage_use(std::exchange(last_look_, now), now);
  }
  parts_.metrics->set_requests(now.scheduler.running, now.scheduler.waiting);
  if (parts_.facts.kv_blocks > 0) parts_.metrics->set_kv_cache_use(kv_use(now, parts_.facts));
  double use = 0;
  for (std::size_t stage = 0; stage < shares.size(); ++stage) {
    use += shares[stage];
    parts_.metrics->set_stage_use(static_cast<std::uint32_t>(stage), shares[stage]);
  }
  // Of a chain that has nothing to do no stage waits for another.
  const bool is_idle = use == 0 || shares.empty();
  parts_.metrics->set_bubble_ratio(
      is_idle ? 0 : std::clamp(1 - use / static_cast<double>(shares.size()), 0.0, 1.0));
}

void ServedModel::note_failure(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  spdlog::error("the chain has failed: {}", error.message());
  failure_ = error;
}

std::map<std::string, bool> ServedModel::nodes() const {
  return parts_.nodes ? parts_.nodes() : std::map<std::string, bool>();
}

std::optional<Error> ServedModel::failure() {
  if (parts_.generator != nullptr) {
    if (const auto error = parts_.generator->failure()) note_failure(*error);
  }
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace paceline::serve
