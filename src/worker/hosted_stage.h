// One assigned stage: its executor, its place in the chain and its link to the next stage.
//
// What network threads may touch (admission, the link comparison) is guarded by a mutex; the rest
// belongs to the work queue's thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "wire/epoch_guard.h"
#include "wire/messages.h"
#include "worker/downstream_link.h"
#include "worker/stage_executor.h"
#include "worker/stage_loader.h"
#include "worker/step_joiner.h"

namespace paceline::worker {

class HostedStage {
 public:
  HostedStage(const wire::Address& address, wire::AssignStage assignment, StageIdentity identity,
              std::shared_ptr<net::Connection> coordinator);

  /// Loads the engine and tells the coordinator. Work queue only.
  void load(const StageLoader& loader, const Clock& clock);
  /// Executes a step and sends what it gives. Work queue only.
  void run(JoinedStep joined, net::Transport& transport, const Clock& clock);

  /// Takes a step, or what the last stage gets of it apart; gives those that can be run now. An
  /// error means that the sender is wrong. Any thread.
  Result<std::vector<JoinedStep>> take(wire::Frame frame, TimePoint now);
  Result<std::vector<JoinedStep>> take_sampling(const wire::Address& address,
                                                wire::StepSampling sampling);
  /// Steps whose other part has not come for too long. Any thread.
  std::vector<JoinedStep> expire(TimePoint now);
  /// Any thread.
  Status compare(const wire::LinkStage& offered) const;
  /// Steps that wait in the queue are skipped from now on. Any thread.
  void abandon();

 private:
  bool is_abandoned() const;
  Status forward(wire::Frame frame, std::vector<wire::Tensor> boundaries,
                 net::Transport& transport);
  Status link_next(net::Transport& transport);
  bool is_last_of_route() const {
    return address_.stage.value() + std::size_t{1} == assignment_.route.size();
  }
  wire::LinkStage offer() const;
  void send_to_coordinator(const wire::Address& address, wire::Message message);

  const wire::Address address_;
  const wire::AssignStage assignment_;
  const StageIdentity identity_;
  const std::shared_ptr<net::Connection> coordinator_;
  std::unique_ptr<StageExecutor> executor_;
  bool is_linked_ = false;
  std::unique_ptr<DownstreamLink> next_;  ///< none where the next stage is behind the coordinator

  mutable std::mutex mutex_;
  wire::EpochGuard guard_;
  wire::EpochGuard sampling_guard_;
  StepJoiner joiner_;                        ///< of the last stage
  std::optional<wire::LinkStage> own_link_;  ///< what the upstream must offer; set once loaded
  bool abandoned_ = false;
};

}  // namespace paceline::worker
