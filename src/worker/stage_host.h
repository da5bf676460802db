// The stages that one coordinator has assigned to this worker: loading, links, steps, release.
//
// Network threads call it and never wait: whatever takes time is a job of the work queue. Every
// answer goes to the connection that a stage was assigned by, or, for boundary tensors, to the
// next stage. A stage has one owner; a second coordinator is refused with the first one's name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "net/transport.h"
#include "wire/messages.h"
#include "worker/hosted_stage.h"
#include "worker/stage_loader.h"
#include "worker/work_queue.h"

namespace paceline::worker {

/// Thread-safe. What it is made of must outlive end(), after which it takes nothing more.
class StageHost {
 public:
  /// `poll_time` as in WorkQueue.
  StageHost(net::Transport& transport, StageLoader loader, const Clock& clock,
            StageIdentity identity, Duration poll_time);

  /// Frees all stages, after the job that runs. Not for the network thread, which that job may wait
  /// for; sessions may hold the host longer.
  void end();

  /// Why `coordinator` cannot have this worker now: kAlreadyExists names the owner.
  Status check_free_for(const net::Connection* coordinator) const;

  /// Takes the assignment for `owner` and loads it in the background; StageReady or a Fault goes to
  /// `coordinator`. kAlreadyExists where another coordinator owns this worker.
  Status assign(const wire::Address& address, const wire::AssignStage& assignment,
                const std::string& owner, std::shared_ptr<net::Connection> coordinator);

  /// The comparison that the upstream neighbour asks for; an error is the answer's Fault.
  Status link(const wire::Address& address, const wire::LinkStage& offered);

  /// Queues a step. `coordinator` is the connection where a coordinator sent it, null where a
  /// linked stage did. An error means that the sender is wrong (old epoch, unknown chain or stage,
  /// not the owner, too many steps): its connection is to be closed with it.
  Status step(wire::Frame frame, const net::Connection* coordinator);

  /// What the last stage gets of a step apart; errors as above.
  Status sampling(const wire::Address& address, wire::StepSampling sampling,
                  const net::Connection* coordinator);

  /// Fails steps whose other part does not come. To be called every now and then.
  void expire();

  /// Frees what `coordinator` owns; called for ReleaseChain and when the connection is gone.
  void release(const net::Connection* coordinator);

  /// Whether a step is computed, or something else is done or waits to be. Any thread.
  bool is_busy() const;

  /// What a Ping is answered with.
  wire::Pong pong(std::uint64_t nonce) const;

 private:
  struct Ownership {
    std::string owner;
    std::shared_ptr<net::Connection> coordinator;
    ChainId chain;
    Epoch epoch;
    std::map<StageId, std::shared_ptr<HostedStage>> stages;
  };

  void drop_stages();
  Result<std::shared_ptr<HostedStage>> find_stage(StageId id) const;
  Status queue_run(const std::shared_ptr<HostedStage>& stage, std::vector<JoinedStep> steps);
  Status check_owner(const net::Connection* coordinator) const;

  net::Transport& transport_;
  StageLoader loader_;
  const Clock& clock_;
  const StageIdentity identity_;
  mutable std::mutex mutex_;
  Ownership owned_;
  WorkQueue queue_;  // last: its thread ends before what its jobs use
};

}  // namespace paceline::worker
