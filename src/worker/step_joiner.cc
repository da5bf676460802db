#include "worker/step_joiner.h"

#include <variant>

#include "wire/step_parts.h"

namespace paceline::worker {
namespace {

tl::unexpected<Error> too_many(std::size_t waiting, std::string_view for_what) {
  return fail(ErrorCode::kResourceExhausted, "{} steps wait for their {}, at most {} can", waiting,
              for_what, StepJoiner::kMaxWaiting);
}

}  // namespace

Result<std::vector<JoinedStep>> StepJoiner::add_step(wire::Frame frame, TimePoint now) {
  if (!std::get<wire::Step>(frame.message).sampled_apart) {
    if (is_apart_) {
      return fail(ErrorCode::kFailedPrecondition,
                  "step {} says how it is sampled, which comes apart in this chain",
                  frame.address.step.value());
    }
    std::vector<JoinedStep> whole;
    whole.push_back({std::move(frame), now});
    return whole;
  }
  is_apart_ = true;
  if (steps_.size() >= kMaxWaiting) return too_many(steps_.size(), "sampling");
  steps_.push_back({std::move(frame), now});
  return match();
}

Result<std::vector<JoinedStep>> StepJoiner::add_sampling(StepId step, wire::StepSampling sampling) {
  is_apart_ = true;
  if (samplings_.size() >= kMaxWaiting) return too_many(samplings_.size(), "rows");
  samplings_.emplace_back(step, std::move(sampling));
  return match();
}

std::vector<JoinedStep> StepJoiner::match() {
  std::vector<JoinedStep> joined;
  while (!steps_.empty() && !samplings_.empty()) {
    JoinedStep& step = steps_.front();
    const StepId id = step.frame.address.step;
    if (samplings_.front().first < id) {
      samplings_.pop_front();  // its step failed on the way, and the coordinator knows
      continue;
    }
    if (samplings_.front().first > id) {
      step.failure = Error(ErrorCode::kUnavailable,
                           fmt::format("how it is sampled did not come, but step {}'s did",
                                       samplings_.front().first.value()));
    } else {
      const Status status = wire::join_sampling(std::get<wire::Step>(step.frame.message),
                                                std::move(samplings_.front().second));
      if (!status) step.failure = status.error();
      samplings_.pop_front();
    }
    joined.push_back(std::move(step));
    steps_.pop_front();
  }
  return joined;
}

std::vector<JoinedStep> StepJoiner::expire(TimePoint now) {
  std::vector<JoinedStep> expired;
  while (!steps_.empty() && now - steps_.front().received > kPatience) {
    steps_.front().failure =
        Error(ErrorCode::kUnavailable,
              fmt::format("how it is sampled has not come from the coordinator for {} s",
                          std::chrono::duration_cast<std::chrono::seconds>(kPatience).count()));
    expired.push_back(std::move(steps_.front()));
    steps_.pop_front();
  }
  return expired;
}

}  // namespace paceline::worker
