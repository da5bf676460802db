#include "worker/stage_host.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "system/memory.h"

namespace paceline::worker {
namespace {

/// More steps than a coordinator has in flight through one worker.
constexpr std::size_t kMaxQueuedJobs = 1024;

}  // namespace

StageHost::StageHost(net::Transport& transport, StageLoader loader, const Clock& clock,
                     StageIdentity identity, Duration poll_time)
    : transport_(transport),
      loader_(std::move(loader)),
      clock_(clock),
      identity_(std::move(identity)),
      queue_(kMaxQueuedJobs, clock, poll_time) {}

void StageHost::end() {
  {
    const std::lock_guard lock(mutex_);
    drop_stages();
    owned_ = Ownership();
  }
  queue_.stop();
}

/// With the mutex held.
Status StageHost::check_owner(const net::Connection* coordinator) const {
  if (!owned_.coordinator || owned_.coordinator.get() == coordinator) return {};
  return fail(ErrorCode::kAlreadyExists, "this worker serves {} already", owned_.owner);
}

Status StageHost::check_free_for(const net::Connection* coordinator) const {
  const std::lock_guard lock(mutex_);
  return check_owner(coordinator);
}

/// With the mutex held. The engines are freed on the queue's thread, after the step that runs.
void StageHost::drop_stages() {
  for (auto& [id, stage] : owned_.stages) {
    stage->abandon();
    queue_.push_always([stage = std::move(stage)] {});
  }
  owned_.stages.clear();
}

Status StageHost::assign(const wire::Address& address, const wire::AssignStage& assignment,
                         const std::string& owner, std::shared_ptr<net::Connection> coordinator) {
  const std::size_t place = address.stage.value();
  if (place >= assignment.route.size() || assignment.route[place].layers != assignment.layers) {
    return fail(ErrorCode::kInvalidArgument, "stage {} of the route is not layers {}-{}", place,
                assignment.layers.begin, assignment.layers.end);
  }
  const std::lock_guard lock(mutex_);
  PACELINE_RETURN_IF_ERROR(check_owner(coordinator.get()));
  if (owned_.chain != address.chain || owned_.epoch != address.epoch) {
    if (owned_.chain == address.chain && address.epoch < owned_.epoch) {
      return fail(ErrorCode::kAborted, "epoch {} is over, this is epoch {}", address.epoch.value(),
                  owned_.epoch.value());
    }
    drop_stages();
  }
  owned_.owner = owner;
  owned_.coordinator = coordinator;
  owned_.chain = address.chain;
  owned_.epoch = address.epoch;
  auto stage =
      std::make_shared<HostedStage>(address, assignment, identity_, std::move(coordinator));
  if (!owned_.stages.emplace(address.stage, stage).second) {
    return fail(ErrorCode::kAlreadyExists, "stage {} is assigned already", place);
  }
  auto queued = queue_.push([this, stage] { stage->load(loader_, clock_); });
  if (!queued) owned_.stages.erase(address.stage);
  return queued;
}

Status StageHost::link(const wire::Address& address, const wire::LinkStage& offered) {
  const std::lock_guard lock(mutex_);
  const auto stage = owned_.stages.find(address.stage);
  if (stage == owned_.stages.end() || owned_.chain != address.chain ||
      owned_.epoch != address.epoch) {
    return fail(ErrorCode::kFailedPrecondition, "stage {} of this chain is not assigned here",
                address.stage.value());
  }
  return stage->second->compare(offered);
}

/// With the mutex held.
Result<std::shared_ptr<HostedStage>> StageHost::find_stage(StageId id) const {
  const auto found = owned_.stages.find(id);
  if (found != owned_.stages.end()) return found->second;
  return fail(ErrorCode::kFailedPrecondition, "a step for stage {}, which is not assigned here",
              id.value());
}

/// With the mutex held.
Status StageHost::queue_run(const std::shared_ptr<HostedStage>& stage,
                            std::vector<JoinedStep> steps) {
  for (JoinedStep& step : steps) {
    // std::function wants copyable captures; a frame is moved, never copied.
    auto shared_step = std::make_shared<JoinedStep>(std::move(step));
    PACELINE_RETURN_IF_ERROR(queue_.push(
        [this, stage, shared_step] { stage->run(std::move(*shared_step), transport_, clock_); }));
  }
  return {};
}

Status StageHost::step(wire::Frame frame, const net::Connection* coordinator) {
  const std::lock_guard lock(mutex_);
  if (coordinator != nullptr) PACELINE_RETURN_IF_ERROR(check_owner(coordinator));
  PACELINE_ASSIGN_OR_RETURN(const auto stage, find_stage(frame.address.stage));
  PACELINE_ASSIGN_OR_RETURN(auto ready, stage->take(std::move(frame), clock_.now()));
  return queue_run(stage, std::move(ready));
}

Status StageHost::sampling(const wire::Address& address, wire::StepSampling sampling,
                           const net::Connection* coordinator) {
  const std::lock_guard lock(mutex_);
  PACELINE_RETURN_IF_ERROR(check_owner(coordinator));
  PACELINE_ASSIGN_OR_RETURN(const auto stage, find_stage(address.stage));
  PACELINE_ASSIGN_OR_RETURN(auto ready, stage->take_sampling(address, std::move(sampling)));
  return queue_run(stage, std::move(ready));
}

void StageHost::expire() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, stage] : owned_.stages) {
    // Where the queue is full the next steps say so to their sender.
    (void)queue_run(stage, stage->expire(clock_.now()));
  }
}

void StageHost::release(const net::Connection* coordinator) {
  const std::lock_guard lock(mutex_);
  if (!owned_.coordinator || owned_.coordinator.get() != coordinator) return;
  spdlog::info("{} stages of {} are released", owned_.stages.size(), owned_.owner);
  drop_stages();
  owned_ = Ownership();
}

bool StageHost::is_busy() const {
  const WorkQueue::Load load = queue_.load();
  return load.queued > 0 || load.busy > Duration::zero();
}

wire::Pong StageHost::pong(std::uint64_t nonce) const {
  const WorkQueue::Load load = queue_.load();
  wire::Pong pong;
  pong.nonce = nonce;
  pong.busy_us = to_whole_microseconds(load.busy);
  pong.queued_steps = static_cast<std::uint32_t>(load.queued);
  if (const auto memory = system::process_memory()) {
    pong.resident_bytes = memory->resident_bytes;
    pong.anonymous_bytes = memory->anonymous_bytes;
  }
  return pong;
}

}  // namespace paceline::worker
