// Workers over the loopback transport, with fake engines, for tests of this folder and of the
// coordinator.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/loopback_transport.h"
#include "net/net_test_util.h"
#include "worker/fake_engine_testing.h"
#include "worker/worker.h"

namespace paceline::worker {

inline constexpr std::uint32_t kFakeLayers = 6;

/// The machine's clock, shifted by as much as a test wants.
class ShiftedClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now() + shift.load(); }
  std::atomic<Duration> shift = Duration::zero();
};

/// One end of a connection to a worker; messages are received in order.
struct Peer {
  std::shared_ptr<net::RecordingHandler> handler = std::make_shared<net::RecordingHandler>();
  std::shared_ptr<net::Connection> connection;
  std::size_t received = 0;

  Status send(const wire::Address& address, wire::Message message,
              std::vector<wire::Tensor> tensors = {}) const {
    return connection->send({address, std::move(message), std::move(tensors)});
  }
  void close() const { connection->close(Error(ErrorCode::kCancelled, "the test is done")); }

  /// The next message, which must be a T.
  template <typename T>
  T receive() {
    const auto frames = handler->wait_for_frames(received + 1);
    if (frames.size() <= received) {
      ADD_FAILURE() << "nothing came";
      return {};
    }
    const wire::Message& message = frames[received++].message;
    if (const T* wanted = std::get_if<T>(&message)) return *wanted;
    ADD_FAILURE() << "got " << to_string(wire::kind_of(message));
    if (const auto* fault = std::get_if<wire::Fault>(&message)) ADD_FAILURE() << fault->message;
    return {};
  }
};

/// Workers "w0", "w1", ... in this process, each with a fake loader.
class FakeWorkers {
 public:
  explicit FakeWorkers(net::LoopbackOptions options = {}) : transport_(thread_, options) {}
  ~FakeWorkers() { stop_all(); }

  /// Starts a worker and returns its address.
  std::string start() {
    WorkerOptions options;
    options.identity = {fmt::format("w{}", workers_.size()), "2026.4.1", isa};
    auto worker = Worker::start(transport_, store_, loader(), clock_, options);
    EXPECT_TRUE(worker) << worker.error().message();
    workers_.push_back(*std::move(worker));
    return workers_.back()->endpoint().to_string();
  }
  void stop(std::size_t index) { workers_[index].reset(); }
  void stop_all() { workers_.clear(); }

  Peer dial(const std::string& address) {
    Peer peer;
    auto connection = net::dial_and_wait(transport_, net::parse_endpoint(address).value(),
                                         net::soon(), peer.handler);
    EXPECT_TRUE(connection) << connection.error().message();
    peer.connection = *std::move(connection);
    return peer;
  }
  static wire::Hello hello(const std::string& name, wire::Role role = wire::Role::kCoordinator) {
    return {{1, 1}, "0.1", role, name, "2026.4.1", "test"};
  }
  Peer greet(const std::string& address, const std::string& name,
             wire::Role role = wire::Role::kCoordinator) {
    Peer peer = dial(address);
    EXPECT_TRUE(peer.send({}, hello(name, role)));
    peer.receive<wire::Welcome>();
    return peer;
  }

  net::LoopbackTransport& transport() { return transport_; }
  ShiftedClock& clock() { return clock_; }

  std::string isa = "test";                       ///< of workers started from now on
  std::function<void()> before_load;              ///< on the engine thread of any worker
  std::function<void(FakeEngine&)> prepare = {};  ///< each new engine
  std::atomic<int> engines_alive = 0;
  bool knows_engines = true;  ///< else workers are of a version that knows the paged one alone

 private:
  /// Counts itself.
  class CountedEngine final : public engine::StageEngine {
   public:
    CountedEngine(std::atomic<int>& alive, LayerRange layers)
        : inner(layers, kFakeLayers), alive_(alive) {
      ++alive_;
    }
    ~CountedEngine() override { --alive_; }
    const engine::StageInfo& info() const override { return inner.info(); }
    Result<engine::StageOutput> run(const engine::StageBatch& batch) override {
      return inner.run(batch);
    }
    void forget(std::span<const SequenceId> freed) override { inner.forget(freed); }
    FakeEngine inner;

   private:
    std::atomic<int>& alive_;
  };

  StageLoader loader() {
    return
        [this](
            const wire::AssignStage& assignment) -> Result<std::unique_ptr<engine::StageEngine>> {
          if (before_load) before_load();
          if (assignment.package_digest == "missing") {
            return fail(ErrorCode::kNotFound, "this worker has no such package");
          }
          auto engine = std::make_unique<CountedEngine>(engines_alive, assignment.layers);
          if (assignment.engine == EngineKind::kStateful && knows_engines) {
            engine->inner.become_stateful();
          }
          if (prepare) prepare(engine->inner);
          return engine;
        };
  }

  net::NetworkThread thread_;
  net::LoopbackTransport transport_;
  PackageStore store_;
  ShiftedClock clock_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace paceline::worker
