#include "worker/downstream_link.h"

#include <utility>
#include <variant>

#include "base/version.h"
#include "net/endpoint.h"
#include "wire/frame_header.h"

namespace paceline::worker {
namespace {

wire::Hello hello_of(const StageIdentity& identity) {
  wire::Hello hello;
  hello.versions = wire::kProtocolVersions;
  hello.software_version = kVersion;
  hello.role = wire::Role::kUpstreamStage;
  hello.name = identity.name;
  hello.openvino_version = identity.openvino_version;
  hello.isa = identity.isa;
  return hello;
}

}  // namespace

/// Takes the two answers of the handshake; later only the link's end matters.
class DownstreamLink::Handler final : public net::ConnectionHandler {
 public:
  explicit Handler(OnLost on_lost) : on_lost_(std::move(on_lost)) {}

  void on_frame(wire::Frame frame) override {
    if (auto* fault = std::get_if<wire::Fault>(&frame.message)) {
      settle(Error(fault->code, std::move(fault->message)));
      return;
    }
    const std::lock_guard lock(mutex_);
    welcomed_ = welcomed_ || std::holds_alternative<wire::Welcome>(frame.message);
    accepted_ = accepted_ || std::holds_alternative<wire::LinkAccepted>(frame.message);
    changed_.notify_all();
  }

  void on_closed(const Error& reason) override {
    settle(reason);
    OnLost on_lost;
    {
      const std::lock_guard lock(mutex_);
      if (accepted_) on_lost = std::exchange(on_lost_, nullptr);
    }
    // A fault that came before says more than the end of the connection.
    if (on_lost) on_lost(*error_);
  }

  /// The link ends because its stage does: nobody is to be told.
  void forget() {
    const std::lock_guard lock(mutex_);
    on_lost_ = nullptr;
  }

  Status wait_welcomed(Deadline deadline) { return wait(deadline, &Handler::welcomed_); }
  Status wait_accepted(Deadline deadline) { return wait(deadline, &Handler::accepted_); }

 private:
  void settle(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  Status wait(Deadline deadline, bool Handler::*flag) {
    std::unique_lock lock(mutex_);
    const bool in_time =
        changed_.wait_until(lock, deadline.at(), [&] { return this->*flag || error_.has_value(); });
    if (this->*flag) return {};
    if (error_) return fail(*error_);
    return in_time ? Status() : fail(ErrorCode::kDeadlineExceeded, "did not answer in time");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool welcomed_ = false;
  bool accepted_ = false;
  std::optional<Error> error_;
  OnLost on_lost_;
};

DownstreamLink::DownstreamLink(std::shared_ptr<Handler> handler,
                               std::shared_ptr<net::Connection> connection)
    : handler_(std::move(handler)), connection_(std::move(connection)) {}

DownstreamLink::~DownstreamLink() {
  handler_->forget();
  connection_->close(Error(ErrorCode::kCancelled, "the stage before was released"));
}

Result<std::unique_ptr<DownstreamLink>> DownstreamLink::connect(net::Transport& transport,
                                                                const LinkTarget& target,
                                                                const StageIdentity& identity,
                                                                OnLost on_lost, Deadline deadline) {
  const auto named = [&](Error error) { return error.with_context(target.peer_address); };
  PACELINE_ASSIGN_OR_RETURN(const auto endpoint, net::parse_endpoint(target.peer_address));
  auto handler = std::make_shared<Handler>(std::move(on_lost));
  auto connection = net::dial_and_wait(transport, endpoint, deadline, handler);
  if (!connection) return fail(std::move(connection).error());  // names the address itself
  std::unique_ptr<DownstreamLink> link(new DownstreamLink(handler, *std::move(connection)));
  const auto exchange = [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(link->send({target.address, hello_of(identity), {}}));
    PACELINE_RETURN_IF_ERROR(handler->wait_welcomed(deadline));
    PACELINE_RETURN_IF_ERROR(link->send({target.address, target.offer, {}}));
    return handler->wait_accepted(deadline);
  };
  if (auto done = exchange(); !done) return fail(named(std::move(done).error()));
  return link;
}

Status DownstreamLink::send(wire::Frame frame) { return connection_->send(std::move(frame)); }

}  // namespace paceline::worker
