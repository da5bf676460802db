// One incoming connection of a worker: handshake first, then what its role may say.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "net/transport.h"
#include "wire/messages.h"
#include "worker/package_server.h"
#include "worker/stage_host.h"

namespace paceline::worker {

/// What a Welcome says of this worker; asked anew for each connection.
using WelcomeSource = std::function<wire::Welcome()>;

/// Called on the network thread only, and never blocks it. A frame that does not fit closes the
/// connection with the reason; the worker goes on.
class Session final : public net::ConnectionHandler {
 public:
  Session(std::shared_ptr<net::Connection> connection, std::shared_ptr<StageHost> host,
          std::shared_ptr<PackageServer> packages, WelcomeSource welcome, Duration fetcher_silence);

  void on_frame(wire::Frame frame) override;
  void on_closed(const Error& reason) override;

 private:
  void on_hello(const wire::Address& address, const wire::Hello& hello);
  /// Whether a peer of this role, speaking this version, may come now.
  Status admit(const wire::Hello& hello, std::uint16_t version);
  /// False where the connection's role may not send this kind.
  bool may_send(wire::Kind kind) const;
  void dispatch(wire::Frame frame);
  void reply(const wire::Address& address, wire::Message message);
  /// Tells the peer what is wrong; `is_fatal` ends the connection, too.
  void refuse(const wire::Address& address, wire::Kind regarding, const Error& error,
              bool is_fatal);

  std::shared_ptr<net::Connection> connection_;
  std::shared_ptr<StageHost> host_;
  std::shared_ptr<PackageServer> packages_;
  WelcomeSource welcome_;
  Duration fetcher_silence_;
  std::shared_ptr<PackageServer::Client> fetcher_;  ///< of role kFetcher only
  bool has_greeted_ = false;
  bool is_linked_ = false;  ///< an upstream stage that was compared
  wire::Role role_ = wire::Role::kCoordinator;
  std::string peer_name_;
};

}  // namespace paceline::worker
