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

ServedModel::ServedModel(Parts parts)
    : parts_(std::move(parts)),
      counted_(parts_.generator == nullptr ? ModelLoad() : load()),
      window_(counted_) {
  count_stages(counted_);  // there from the first moment
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
  const std::lock_guard lock(look_mutex_);
  const ModelLoad now = load();
  parts_.metrics->set_requests(now.scheduler.running, now.scheduler.waiting);
  if (parts_.facts.kv_blocks > 0) parts_.metrics->set_kv_cache_use(kv_use(now, parts_.facts));
  parts_.metrics->set_bubble_ratio(bubble_ratio(window_.base_of(now), now));
  count_stages(now);
}

void ServedModel::count_stages(const ModelLoad& now) {
  if (parts_.metrics == nullptr) return;
  const double elapsed = to_seconds(now.at - counted_.at);
  for (std::size_t stage = 0; stage < now.stage_busy_s.size(); ++stage) {
    const double busy = now.stage_busy_s[stage] - counted_.stage_busy_s[stage];
    parts_.metrics->add_stage_time(static_cast<std::uint32_t>(stage), busy, elapsed);
  }
  counted_ = now;
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
