// A worker with a real package, over the loopback transport, for tests of fetching.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "net/loopback_transport.h"
#include "shard/package_testing.h"
#include "worker/worker.h"
#include "worker/worker_testing.h"

namespace paceline::worker {

class ServingWorkerTest : public shard::PackageTestBase {
 protected:
  /// A worker that holds `directory`; the test's package is made where it is not there.
  void start_worker(const std::filesystem::path& directory = {}) {
    if (!std::filesystem::exists(package() / shard::kManifestFile)) make_package();
    store_ = PackageStore::open({directory.empty() ? package() : directory}).value();
    WorkerOptions options;
    options.identity = {"w0", "2026.4.1", "test"};
    worker_ = Worker::start(transport_, store_, {}, clock_, options).value();
  }
  std::string address() const { return worker_->endpoint().to_string(); }
  std::string digest() const { return store_.packages().front().manifest.digest; }

  static wire::Hello hello(wire::Role role, wire::VersionRange versions) {
    return {versions, "0.1", role, "a test", "", ""};
  }
  Peer dial() {
    Peer peer;
    peer.connection =
        net::dial_and_wait(transport_, worker_->endpoint(), net::soon(), peer.handler).value();
    return peer;
  }
  Peer greet(wire::Role role) {
    Peer peer = dial();
    EXPECT_TRUE(peer.send({}, hello(role, {1, 2})));
    EXPECT_EQ(peer.receive<wire::Welcome>().version, 2);
    return peer;
  }
  Peer fetcher() { return greet(wire::Role::kFetcher); }

  PackageStore store_;
  SteadyClock clock_;
  net::NetworkThread thread_;
  net::LoopbackTransport transport_{thread_};
  std::unique_ptr<Worker> worker_;
};

}  // namespace paceline::worker
