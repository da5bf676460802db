// Pieces of this worker's packages for fetchers (docs/wire.md, "ReadPiece, Piece").
//
// Network threads only queue what is asked for: a thread of its own, of low priority, verifies,
// reads and sends. While steps compute, it waits before each piece, for a bounded time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "wire/messages.h"
#include "worker/package_store.h"
#include "worker/work_queue.h"

namespace paceline::worker {

/// Thread-safe. The store and the clock must outlive end(), after which nothing is sent.
class PackageServer {
 public:
  static constexpr int kMaxClients = 4;
  /// Of one client: asked for, and not wholly sent. Twice what a client may have unanswered,
  /// because it sees the last byte before this side knows that it was sent.
  static constexpr int kMaxUnsent = 16;
  /// How long a piece waits for the steps that compute.
  static constexpr auto kMaxYield = std::chrono::milliseconds(20);

  /// One fetcher, from admit() until its connection lets go of it. Opaque.
  class Client;

  PackageServer(const PackageStore& store, const Clock& clock, std::function<bool()> is_computing);

  /// kResourceExhausted where kMaxClients are served already.
  Result<std::shared_ptr<Client>> admit(std::shared_ptr<net::Connection> connection);

  /// Queues a piece; it, or a Fault, goes to the client's connection. An error means that the
  /// client asks for too much at once: its connection is to be closed.
  Status read(const std::shared_ptr<Client>& client, wire::ReadPiece request);

  /// Ends after the piece that is being read. Not for the network thread.
  void end() { queue_.stop(); }

 private:
  /// What of a package was verified in this process. Of the queue's thread only.
  struct Verified {
    std::map<std::string, bool> files;
    std::vector<bool> extents;
  };

  void serve(const std::shared_ptr<Client>& client, const wire::ReadPiece& request);
  void yield_to_steps() const;
  Result<wire::Frame> piece(const std::shared_ptr<Client>& client, const wire::ReadPiece& request);
  Status verify(const StoredPackage& package, const wire::ReadPiece& request);

  const PackageStore& store_;
  const Clock& clock_;
  const std::function<bool()> is_computing_;
  const std::shared_ptr<std::atomic<int>> clients_ = std::make_shared<std::atomic<int>>(0);
  std::map<std::string, Verified> verified_;  ///< by digest
  WorkQueue queue_;                           // last: its thread ends before what its jobs use
};

}  // namespace paceline::worker
