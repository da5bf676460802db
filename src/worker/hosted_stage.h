// One assigned stage: its executor, its place in the chain and its link to the next stage.
//
// What network threads may touch (admission, the link comparison) is guarded by a mutex; the rest
// belongs to the work queue's thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "wire/epoch_guard.h"
#include "wire/messages.h"
#include "worker/downstream_link.h"
#include "worker/stage_executor.h"
#include "worker/stage_loader.h"

namespace paceline::worker {

class HostedStage {
 public:
  HostedStage(const wire::Address& address, wire::AssignStage assignment, StageIdentity identity,
              std::shared_ptr<net::Connection> coordinator);

  /// Loads the engine and tells the coordinator. Work queue only.
  void load(const StageLoader& loader, const Clock& clock);
  /// Executes a step and sends what it gives. Work queue only.
  void run(wire::Frame frame, Duration queued, net::Transport& transport, const Clock& clock);

  /// Any thread.
  Status admit(const wire::Address& address);
  Status compare(const wire::LinkStage& offered) const;
  /// Steps that wait in the queue are skipped from now on. Any thread.
  void abandon();

 private:
  bool is_abandoned() const;
  Status forward(wire::Frame frame, std::vector<wire::Tensor> boundaries,
                 net::Transport& transport);
  Status connect_next(net::Transport& transport);
  wire::LinkStage offer() const;
  void send_to_coordinator(const wire::Address& address, wire::Message message);

  const wire::Address address_;
  const wire::AssignStage assignment_;
  const StageIdentity identity_;
  const std::shared_ptr<net::Connection> coordinator_;
  std::unique_ptr<StageExecutor> executor_;
  std::unique_ptr<DownstreamLink> next_;

  mutable std::mutex mutex_;
  wire::EpochGuard guard_;
  std::optional<wire::LinkStage> own_link_;  ///< what the upstream must offer; set once loaded
  bool abandoned_ = false;
};

}  // namespace paceline::worker
