#include "coordinator/worker_pool.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/version.h"
#include "net/endpoint.h"
#include "wire/frame_header.h"

namespace paceline::coordinator {
namespace {

constexpr auto kPingInterval = std::chrono::milliseconds(500);
/// A worker answers pings on its network thread, however busy its engine is.
constexpr auto kSilenceLimit = std::chrono::seconds(4);
/// The same where nobody waits. Counted and not measured: while this process is stopped there are
/// no beats.
constexpr std::uint32_t kUnansweredBeats = 10;
/// Pings whose times are kept: more than fit in the limit above.
constexpr std::size_t kKeptPings = 64;

wire::Hello hello_of(const std::string& name) {
  wire::Hello hello;
  hello.versions = wire::kProtocolVersions;
  hello.software_version = kVersion;
  hello.role = wire::Role::kCoordinator;
  hello.name = name;
  return hello;
}

}  // namespace

/// Passes a connection's events to the pool until the pool is gone.
class WorkerPool::Handler final : public net::ConnectionHandler {
 public:
  Handler(WorkerPool* pool, std::string worker) : pool_(pool), worker_(std::move(worker)) {}

  void on_frame(wire::Frame frame) override {
    const std::lock_guard lock(mutex_);
    if (pool_ != nullptr) pool_->on_frame(worker_, std::move(frame));
  }
  void on_closed(const Error& reason) override {
    const std::lock_guard lock(mutex_);
    if (pool_ != nullptr) pool_->on_closed(worker_, reason);
  }
  void detach() {
    const std::lock_guard lock(mutex_);
    pool_ = nullptr;
  }

 private:
  std::mutex mutex_;
  WorkerPool* pool_;
  const std::string worker_;
};

WorkerPool::WorkerPool(const Clock& clock)
    : clock_(clock), heartbeat_([this](const std::stop_token& stop) { beat(stop); }) {}

WorkerPool::~WorkerPool() {
  heartbeat_ = {};
  for (auto& [address, peer] : peers_) {
    peer.handler->detach();
    if (!peer.connection) continue;
    (void)peer.connection->send({{}, wire::ReleaseChain(), {}});
    peer.connection->close(Error(ErrorCode::kCancelled, "the coordinator is done"));
  }
}

Result<std::unique_ptr<WorkerPool>> WorkerPool::connect(net::Transport& transport,
                                                        const Clock& clock,
                                                        const std::vector<std::string>& addresses,
                                                        const std::string& name,
                                                        Deadline deadline) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool(clock));
  for (const std::string& address : addresses) {
    if (pool->peers_.contains(address)) continue;
    PACELINE_RETURN_IF_ERROR(pool->greet(transport, address, name, deadline));
  }
  return pool;
}

Status WorkerPool::greet(net::Transport& transport, const std::string& address,
                         const std::string& name, Deadline deadline) {
  PACELINE_ASSIGN_OR_RETURN(const auto endpoint, net::parse_endpoint(address));
  auto handler = std::make_shared<Handler>(this, address);
  {
    const std::lock_guard lock(mutex_);
    peers_[address].handler = handler;
    peers_[address].last_heard = clock_.now();
  }
  auto connection = net::dial_and_wait(transport, endpoint, deadline, handler);
  if (!connection) return fail(connection.error().with_context("no connection to a worker"));
  std::unique_lock lock(mutex_);
  Peer& peer = peers_[address];
  peer.connection = *std::move(connection);
  PACELINE_RETURN_IF_ERROR(peer.connection->send({{}, hello_of(name), {}}));
  PACELINE_RETURN_IF_ERROR(
      wait_until(lock, deadline, [&peer] { return peer.welcome.has_value(); }));
  welcomes_.emplace(address, *peer.welcome);
  return {};
}

Status WorkerPool::send(const std::string& worker, wire::Frame frame) {
  std::shared_ptr<net::Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = peers_.at(worker).connection;
  }
  if (auto sent = connection->send(std::move(frame)); !sent) {
    const std::lock_guard lock(mutex_);
    return fail(failure_ ? *failure_ : sent.error().with_context("worker " + worker));
  }
  return {};
}

void WorkerPool::pass_on(Passage passage) {
  const std::lock_guard lock(mutex_);
  passage_ = std::move(passage);
}

void WorkerPool::expect_results_from(const std::string& worker) {
  const std::lock_guard lock(mutex_);
  results_from_ = worker;
}

/// With the mutex held.
Status WorkerPool::pass_on(const std::string& worker, wire::Frame& frame) {
  const bool is_link = std::holds_alternative<wire::LinkStage>(frame.message);
  wire::Address place = frame.address;
  place.step = passage_ ? passage_->to.step : StepId(0);
  const bool is_meant = passage_ && worker == passage_->from && place == passage_->to;
  if (!is_meant || !(is_link || is_passage_linked_)) {
    return fail(ErrorCode::kFailedPrecondition, "a {} for stage {} is not expected from it",
                to_string(wire::kind_of(frame.message)), frame.address.stage.value());
  }
  is_passage_linked_ = true;
  return peers_.at(passage_->worker).connection->send(std::move(frame));
}

void WorkerPool::on_frame(const std::string& worker, wire::Frame frame) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[worker];
  peer.last_heard = clock_.now();
  peer.unanswered_beats = 0;
  record(worker, frame);
  changed_.notify_all();
}

/// With the mutex held.
void WorkerPool::record(const std::string& worker, wire::Frame& frame) {
  if (auto* welcome = std::get_if<wire::Welcome>(&frame.message)) {
    peers_[worker].welcome = std::move(*welcome);
  } else if (auto* ready = std::get_if<wire::StageReady>(&frame.message)) {
    ready_[frame.address.stage] = std::move(*ready);
  } else if (auto* pong = std::get_if<wire::Pong>(&frame.message)) {
    record_pong(peers_[worker], *pong);
  } else if (auto* result = std::get_if<wire::StepResult>(&frame.message)) {
    record_result(worker, frame.address, *result);
  } else if (std::holds_alternative<wire::LinkStage>(frame.message) ||
             std::holds_alternative<wire::Step>(frame.message)) {
    const Status passed = pass_on(worker, frame);
    if (!passed && !failure_) failure_ = passed.error().with_context("worker " + worker);
  } else if (auto* fault = std::get_if<wire::Fault>(&frame.message)) {
    if (!failure_) {
      failure_ = Error(fault->code, fmt::format("worker {}: {}", worker, fault->message));
    }
  }
}

/// With the mutex held.
void WorkerPool::record_pong(Peer& peer, const wire::Pong& pong) {
  peer.pong = pong;
  const auto pinged = pinged_at_.find(pong.nonce);
  if (pinged != pinged_at_.end()) peer.round_trip = clock_.now() - pinged->second;
}

/// With the mutex held.
void WorkerPool::record_result(const std::string& worker, const wire::Address& address,
                               wire::StepResult& result) {
  const bool is_done = result.outcome == wire::Outcome::kDone;
  if (is_done && (results_from_.empty() || worker == results_from_)) {
    results_[address.step] = std::move(result);
  } else if (!failure_ && is_done) {
    failure_ = Error(ErrorCode::kFailedPrecondition,
                     fmt::format("worker {}: has samples of step {}, but not the last stage",
                                 worker, address.step.value()));
  } else if (!failure_) {
    failure_ = Error(result.error_code, fmt::format("worker {} (stage {}): {}", worker,
                                                    address.stage.value(), result.error_message));
  }
}

void WorkerPool::on_closed(const std::string& worker, const Error& reason) {
  const std::lock_guard lock(mutex_);
  peers_[worker].is_gone = true;
  if (!failure_) {
    failure_ = Error(ErrorCode::kUnavailable,
                     fmt::format("worker {} is gone: {}", worker, reason.message()));
  }
  changed_.notify_all();
}

/// With the mutex held.
void WorkerPool::ping(std::uint64_t nonce) {
  pinged_at_[nonce] = clock_.now();
  if (pinged_at_.size() > kKeptPings) pinged_at_.erase(pinged_at_.begin());
  for (auto& [address, peer] : peers_) {
    if (!peer.connection) continue;
    // A connection that takes nothing ends, or its worker becomes silent.
    (void)peer.connection->send({{}, wire::Ping{nonce, 0}, {}});
  }
}

/// The heartbeat's thread.
void WorkerPool::beat(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    count_beat();
    ping(++nonce_);
    changed_.wait_for(lock, stop, kPingInterval, [] { return false; });
  }
}

/// With the mutex held.
void WorkerPool::count_beat() {
  for (auto& [address, peer] : peers_) {
    if (!peer.welcome || ++peer.unanswered_beats <= kUnansweredBeats || failure_) continue;
    failure_ = Error(ErrorCode::kUnavailable,
                     fmt::format("worker {} has not answered {} pings", address, kUnansweredBeats));
    changed_.notify_all();
  }
}

/// With the mutex held.
Status WorkerPool::check_silence() const {
  for (const auto& [address, peer] : peers_) {
    const Duration silent = clock_.now() - peer.last_heard;
    if (peer.connection && silent > kSilenceLimit) {
      return fail(ErrorCode::kUnavailable, "worker {} has not answered for {} s", address,
                  std::chrono::duration_cast<std::chrono::seconds>(silent).count());
    }
  }
  return {};
}

template <typename Predicate>
Status WorkerPool::wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                              Predicate is_there) {
  // After a time in which nobody waited silence counts from now on: this process may have been
  // stopped. One that is woken again and again goes on counting.
  if (clock_.now() - last_wait_ > kPingInterval) {
    for (auto& [address, peer] : peers_) peer.last_heard = clock_.now();
  }
  while (!is_there() && !failure_) {
    last_wait_ = clock_.now();
    // By duration, because the condition variable knows only the machine's clock.
    const Duration pause = std::min<Duration>(deadline.left(clock_.now()), kPingInterval);
    if (changed_.wait_for(lock, pause, [&] { return is_there() || failure_; })) break;
    if (deadline.has_passed(clock_.now())) {
      return fail(ErrorCode::kDeadlineExceeded, "the workers did not answer in time");
    }
    PACELINE_RETURN_IF_ERROR(check_silence());
  }
  last_wait_ = clock_.now();
  if (is_there()) return {};
  return fail(*failure_);
}

Result<wire::StageReady> WorkerPool::await_ready(StageId stage, Deadline deadline) {
  std::unique_lock lock(mutex_);
  PACELINE_RETURN_IF_ERROR(wait_until(lock, deadline, [&] { return ready_.contains(stage); }));
  return ready_.at(stage);
}

Result<std::optional<wire::StepResult>> WorkerPool::await_result(StepId step, Deadline deadline) {
  std::unique_lock lock(mutex_);
  PACELINE_RETURN_IF_ERROR(
      wait_until(lock, deadline, [&] { return is_woken_ || results_.contains(step); }));
  is_woken_ = false;
  if (!results_.contains(step)) return std::nullopt;
  auto result = std::move(results_.extract(step).mapped());
  return result;
}

void WorkerPool::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

std::optional<Error> WorkerPool::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::map<std::string, bool> WorkerPool::nodes() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, bool> nodes;
  for (const auto& [address, peer] : peers_) {
    nodes[address] = !peer.is_gone && peer.unanswered_beats <= kUnansweredBeats;
  }
  return nodes;
}

Result<std::map<std::string, wire::Pong>> WorkerPool::ping_all(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::uint64_t nonce = ++nonce_;
  ping(nonce);
  const auto all_answered = [&] {
    return std::all_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
      return entry.second.pong && entry.second.pong->nonce >= nonce;
    });
  };
  PACELINE_RETURN_IF_ERROR(wait_until(lock, deadline, all_answered));
  std::map<std::string, wire::Pong> pongs;
  for (const auto& [address, peer] : peers_) pongs.emplace(address, *peer.pong);
  return pongs;
}

std::map<std::string, WorkerState> WorkerPool::states() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, WorkerState> states;
  for (const auto& [address, peer] : peers_) {
    if (peer.welcome)
      states.emplace(address, WorkerState{*peer.welcome, peer.pong, peer.round_trip});
  }
  return states;
}

}  // namespace paceline::coordinator
