#include "worker/session.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>
#include <variant>

#include "wire/frame_header.h"

namespace paceline::worker {
namespace {

/// A coordinator pings twice a second. One that is silent for so long is let go, or its worker
/// would be kept from others by a link that was cut without a word.
constexpr auto kSilenceLimit = std::chrono::seconds(10);

}  // namespace

Session::Session(std::shared_ptr<net::Connection> connection, std::shared_ptr<StageHost> host,
                 std::shared_ptr<PackageServer> packages, WelcomeSource welcome,
                 Duration fetcher_silence)
    : connection_(std::move(connection)),
      host_(std::move(host)),
      packages_(std::move(packages)),
      welcome_(std::move(welcome)),
      fetcher_silence_(fetcher_silence) {}

void Session::reply(const wire::Address& address, wire::Message message) {
  if (auto sent = connection_->send({address, std::move(message), {}}); !sent) {
    spdlog::warn("{}: cannot answer: {}", connection_->peer(), sent.error().message());
    connection_->close(std::move(sent).error());
  }
}

void Session::refuse(const wire::Address& address, wire::Kind regarding, const Error& error,
                     bool is_fatal) {
  spdlog::warn("{}: {}: {}", connection_->peer(), to_string(regarding), error.message());
  reply(address, wire::Fault{error.code(), error.message(), regarding});
  if (is_fatal) connection_->close(error);
}

Status Session::admit(const wire::Hello& hello, std::uint16_t version) {
  if (hello.role == wire::Role::kCoordinator) return host_->check_free_for(connection_.get());
  if (hello.role != wire::Role::kFetcher) return {};
  if (const auto needed = wire::version_of(wire::Kind::kReadPiece); version < needed) {
    return fail(ErrorCode::kFailedPrecondition,
                "a fetcher speaks protocol version {} or later, this one {}", needed, version);
  }
  PACELINE_ASSIGN_OR_RETURN(fetcher_, packages_->admit(connection_));
  return {};
}

void Session::on_hello(const wire::Address& address, const wire::Hello& hello) {
  const auto version = wire::negotiate_version(wire::kProtocolVersions, hello.versions);
  if (!version) {
    refuse(address, wire::Kind::kHello, version.error(), true);
    return;
  }
  if (const auto admitted = admit(hello, *version); !admitted) {
    refuse(address, wire::Kind::kHello, admitted.error(), true);
    return;
  }
  if (hello.role == wire::Role::kCoordinator) connection_->set_silence_limit(kSilenceLimit);
  if (hello.role == wire::Role::kFetcher) connection_->set_silence_limit(fetcher_silence_);
  has_greeted_ = true;
  role_ = hello.role;
  peer_name_ = hello.name;
  wire::Welcome welcome = welcome_();
  welcome.version = *version;
  reply(address, std::move(welcome));
}

bool Session::may_send(wire::Kind kind) const {
  const bool is_coordinator = role_ == wire::Role::kCoordinator;
  switch (kind) {
    case wire::Kind::kStep:
      return is_coordinator || is_linked_;
    case wire::Kind::kPing:
    case wire::Kind::kGoodbye:
    case wire::Kind::kFault:
      return true;
    case wire::Kind::kAssignStage:
    case wire::Kind::kReleaseChain:
    case wire::Kind::kStepSampling:
      return is_coordinator;
    case wire::Kind::kLinkStage:
      // A coordinator passes on what the stage before says.
      return is_coordinator || role_ == wire::Role::kUpstreamStage;
    case wire::Kind::kReadPiece:
      return fetcher_ != nullptr;
    default:
      return false;
  }
}

void Session::on_frame(wire::Frame frame) {
  const wire::Kind kind = wire::kind_of(frame.message);
  if (!has_greeted_) {
    if (const auto* hello = std::get_if<wire::Hello>(&frame.message)) {
      on_hello(frame.address, *hello);
    } else {
      refuse(frame.address, kind,
             Error(ErrorCode::kFailedPrecondition, "the first frame must be a hello"), true);
    }
    return;
  }
  if (!may_send(kind)) {
    refuse(frame.address, kind,
           Error(ErrorCode::kFailedPrecondition, "not expected on this connection"), true);
    return;
  }
  dispatch(std::move(frame));
}

void Session::dispatch(wire::Frame frame) {
  const wire::Address address = frame.address;
  const wire::Kind kind = wire::kind_of(frame.message);
  if (const auto* ping = std::get_if<wire::Ping>(&frame.message)) {
    host_->expire();
    reply(address, host_->pong(ping->nonce));
  } else if (const auto* assignment = std::get_if<wire::AssignStage>(&frame.message)) {
    const auto taken = host_->assign(address, *assignment, peer_name_, connection_);
    if (!taken) refuse(address, kind, taken.error(), false);
  } else if (const auto* link = std::get_if<wire::LinkStage>(&frame.message)) {
    const auto agreed = host_->link(address, *link);
    if (agreed) {
      is_linked_ = true;
      reply(address, wire::LinkAccepted());
    } else {
      refuse(address, kind, agreed.error(), true);
    }
  } else if (std::holds_alternative<wire::Step>(frame.message)) {
    const bool is_coordinator = role_ == wire::Role::kCoordinator;
    const auto queued = host_->step(std::move(frame), is_coordinator ? connection_.get() : nullptr);
    if (!queued) refuse(address, kind, queued.error(), true);
  } else if (auto* sampling = std::get_if<wire::StepSampling>(&frame.message)) {
    const auto queued = host_->sampling(address, std::move(*sampling), connection_.get());
    if (!queued) refuse(address, kind, queued.error(), true);
  } else if (auto* read = std::get_if<wire::ReadPiece>(&frame.message)) {
    const auto queued = packages_->read(fetcher_, std::move(*read));
    if (!queued) refuse(address, kind, queued.error(), true);
  } else if (std::holds_alternative<wire::ReleaseChain>(frame.message)) {
    host_->release(connection_.get());
  } else if (const auto* goodbye = std::get_if<wire::Goodbye>(&frame.message)) {
    connection_->close(Error(ErrorCode::kCancelled, goodbye->reason));
  }
}

void Session::on_closed(const Error&) {
  host_->release(connection_.get());
  fetcher_.reset();
  connection_.reset();
}

}  // namespace paceline::worker
