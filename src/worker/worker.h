// The worker process: listens, and serves the stages that a coordinator assigns to it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "worker/downstream_link.h"
#include "worker/package_store.h"
#include "worker/stage_loader.h"

namespace paceline::worker {

class PackageServer;
class StageHost;

struct WorkerOptions {
  net::Endpoint endpoint = {"127.0.0.1", 0};
  /// Frames are neither encrypted nor authenticated yet: beyond loopback only where this is set.
  bool insecure = false;
  std::uint32_t threads = 0;
  StageIdentity identity;
  /// How long a stage looks for its next step before its thread sleeps.
  Duration poll_time = {};
  /// A fetcher from which nothing comes for so long is let go, and another gets its place.
  Duration fetcher_silence = std::chrono::seconds(120);
};

/// Accepts connections and serves them from start() to destruction, which waits for the step that
/// is computed; connections that are open then are refused whatever they ask. Thread-compatible;
/// not to be destroyed on the network thread.
class Worker {
 public:
  /// kPermissionDenied for an address beyond loopback without `insecure`; else what listening
  /// gives. Store and clock must outlive the transport, the transport this.
  static Result<std::unique_ptr<Worker>> start(net::Transport& transport, const PackageStore& store,
                                               StageLoader loader, const Clock& clock,
                                               const WorkerOptions& options);

  ~Worker();

  const net::Endpoint& endpoint() const { return listener_->endpoint(); }

 private:
  Worker(std::shared_ptr<StageHost> host, std::shared_ptr<PackageServer> packages,
         std::unique_ptr<net::Listener> listener);

  // Shared with the connections, which may live longer.
  std::shared_ptr<StageHost> host_;
  std::shared_ptr<PackageServer> packages_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace paceline::worker
