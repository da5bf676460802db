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

Result<sched::RequestId> ServedModel::submit(
    coordinator::GenerationRequest request, std::shared_ptr<coordinator::AnswerListener> listener) {
  auto id = parts_.generator->submit(std::move(request), std::move(listener));
  if (!id && !is_about_the_request(id.error().code())) note_failure(id.error());
  return id;
}

void ServedModel::look() {
  if (parts_.metrics == nullptr) return;
  const coordinator::BatchStats stats = parts_.generator->stats();
  parts_.metrics->set_requests(stats.scheduler.running, stats.scheduler.waiting);
  if (parts_.facts.kv_blocks > 0) {
    const double available = stats.scheduler.available_blocks;
    parts_.metrics->set_kv_cache_use(1 - available / parts_.facts.kv_blocks);
  }
  double use = 0;
  for (std::size_t stage = 0; stage < stats.stage_use.size(); ++stage) {
    use += stats.stage_use[stage];
    parts_.metrics->set_stage_use(static_cast<std::uint32_t>(stage), stats.stage_use[stage]);
  }
  // Of a chain that has nothing to do no stage waits for another.
  const bool is_idle = use == 0 || stats.stage_use.empty();
  parts_.metrics->set_bubble_ratio(
      is_idle ? 0 : std::clamp(1 - use / static_cast<double>(stats.stage_use.size()), 0.0, 1.0));
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
