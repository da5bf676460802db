// The worker process: listens, and serves the stages that a coordinator assigns to it.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "worker/downstream_link.h"
#include "worker/package_store.h"
#include "worker/stage_loader.h"

namespace paceline::worker {

struct WorkerOptions {
  net::Endpoint endpoint = {"127.0.0.1", 0};
  /// Frames are neither encrypted nor authenticated yet: beyond loopback only where this is set.
  bool insecure = false;
  std::uint32_t threads = 0;
  StageIdentity identity;
};

/// Accepts connections from start() to destruction; those that are open then live on until the
/// transport ends. Thread-compatible.
class Worker {
 public:
  /// kPermissionDenied for an address beyond loopback without `insecure`; else what listening
  /// gives. Store and clock must outlive the transport, the transport this.
  static Result<std::unique_ptr<Worker>> start(net::Transport& transport, const PackageStore& store,
                                               StageLoader loader, const Clock& clock,
                                               const WorkerOptions& options);

  const net::Endpoint& endpoint() const { return listener_->endpoint(); }

 private:
  explicit Worker(std::unique_ptr<net::Listener> listener) : listener_(std::move(listener)) {}

  std::unique_ptr<net::Listener> listener_;
};

}  // namespace paceline::worker
