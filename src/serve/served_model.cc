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

void ServedModel::end_all(Error reason) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = reason;  // not the chain's: nobody is to call it that
  }
  parts_.generator->end_all(std::move(reason));
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
  for (const double share : stats.stage_use) use += share;
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

std::optional<Error> ServedModel::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace paceline::serve
