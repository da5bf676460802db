#include "serve/served_model.h"

#include <spdlog/spdlog.h>

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
