// Connections from the coordinator to its workers: dialled, greeted, kept, and watched.
//
// What they say is gathered here, so that a chain can wait for it: assignments answered, results,
// faults, and how long each worker has been silent.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "wire/messages.h"

namespace paceline::coordinator {

/// A stage that the one before it reaches over this process only (docs/wire.md).
struct Passage {
  std::string from;  ///< the worker of the stage before
  wire::Address to;
  std::string worker;  ///< of the stage
};

/// What is known of a worker without asking it.
struct WorkerState {
  wire::Welcome welcome;
  std::optional<wire::Pong> pong;      ///< the last one
  std::optional<Duration> round_trip;  ///< of the last ping
};

/// Thread-safe: filled by the network thread, read by the one that runs the chain.
class WorkerPool {
 public:
  /// Dials and greets every distinct address; errors name the worker. `name` is what a worker
  /// tells others about its owner.
  static Result<std::unique_ptr<WorkerPool>> connect(net::Transport& transport, const Clock& clock,
                                                     const std::vector<std::string>& addresses,
                                                     const std::string& name, Deadline deadline);
  ~WorkerPool();

  /// By address.
  const std::map<std::string, wire::Welcome>& welcomes() const { return welcomes_; }

  Status send(const std::string& worker, wire::Frame frame);

  /// From now on what `passage.from` sends for that stage is passed on, on the network thread, and
  /// such frames of any other worker or for any other stage are its failure.
  void pass_on(Passage passage);
  /// From now on samples of any other worker are its failure.
  void expect_results_from(const std::string& worker);

  /// Waits until `stage` is loaded; a Fault of its worker is the error.
  Result<wire::StageReady> await_ready(StageId stage, Deadline deadline);
  /// Waits for a step's result. A worker that is silent for too long, or gone, or that reports a
  /// fault, is the error and is named. None where wake() was called.
  Result<std::optional<wire::StepResult>> await_result(StepId step, Deadline deadline);
  void wake();
  /// The first failure, noticed also where nobody waits: a worker's end at once, its silence after
  /// some seconds.
  std::optional<Error> failure() const;
  /// By address, whether it still answers.
  std::map<std::string, bool> nodes() const;
  /// The last Pong of each worker.
  Result<std::map<std::string, wire::Pong>> ping_all(Deadline deadline);
  /// By address, of those that have been greeted; does not wait.
  std::map<std::string, WorkerState> states() const;

 private:
  class Handler;
  struct Peer {
    std::shared_ptr<net::Connection> connection;
    std::shared_ptr<Handler> handler;
    std::optional<wire::Welcome> welcome;
    std::optional<wire::Pong> pong;
    std::optional<Duration> round_trip;
    TimePoint last_heard;
    std::uint32_t unanswered_beats = 0;  ///< since it was heard last
    bool is_gone = false;
  };

  explicit WorkerPool(const Clock& clock);
  Status greet(net::Transport& transport, const std::string& address, const std::string& name,
               Deadline deadline);
  void on_frame(const std::string& worker, wire::Frame frame);
  void on_closed(const std::string& worker, const Error& reason);
  void record(const std::string& worker, wire::Frame& frame);
  void record_pong(Peer& peer, const wire::Pong& pong);
  void record_result(const std::string& worker, const wire::Address& address,
                     wire::StepResult& result);
  Status pass_on(const std::string& worker, wire::Frame& frame);
  void ping(std::uint64_t nonce);
  void beat(const std::stop_token& stop);
  void count_beat();
  Status check_silence() const;
  /// Waits until `is_there` holds, checking for silence; the lock is held by both.
  template <typename Predicate>
  Status wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline, Predicate is_there);

  const Clock& clock_;
  std::map<std::string, wire::Welcome> welcomes_;  ///< complete after connect()
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Peer> peers_;
  std::map<StageId, wire::StageReady> ready_;
  std::map<StepId, wire::StepResult> results_;
  std::string results_from_;  ///< empty: anybody
  std::optional<Passage> passage_;
  bool is_passage_linked_ = false;
  bool is_woken_ = false;
  TimePoint last_wait_;           ///< when somebody waited last
  std::optional<Error> failure_;  ///< the first one; a chain does not survive it
  std::uint64_t nonce_ = 0;
  std::map<std::uint64_t, TimePoint> pinged_at_;  ///< of recent nonces
  /// Pings all workers, also while nobody waits: a worker lets a silent coordinator go. The last
  /// member, so that it ends before what it uses.
  std::jthread heartbeat_;
};

}  // namespace paceline::coordinator
