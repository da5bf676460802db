// Frames over plain TCP. Not encrypted: a worker that is not on loopback needs --insecure until TLS
// exists.
#pragma once

#include <memory>

#include "net/tcp_options.h"
#include "net/transport.h"

namespace paceline::net {

class TcpTransport final : public Transport {
 public:
  /// `thread` must outlive the transport.
  explicit TcpTransport(NetworkThread& thread, TcpOptions options = {});
  ~TcpTransport() override;

  NetworkThread& thread() override { return thread_; }
  /// A name is resolved first (this may wait for a resolver; numeric addresses and localhost do
  /// not).
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint,
                                           AcceptHandler on_accept) override;
  void dial(const Endpoint& endpoint, Deadline deadline, std::shared_ptr<ConnectionHandler> handler,
            DialHandler done) override;

 private:
  class Registry;
  class AcceptLoop;
  class TcpListener;
  class Dialler;

  NetworkThread& thread_;
  const TcpOptions options_;
  const std::shared_ptr<Registry> registry_;  ///< shared with the operations under way
};

}  // namespace paceline::net
