// Connections within the process, for unit tests: no sockets, no ports, no timeouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "net/transport.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace paceline::net {

struct LoopbackOptions {
  wire::Limits limits;
  std::size_t send_queue_bytes = std::size_t{256} << 20;
  wire::FirstFrame first_frame = wire::FirstFrame::kHandshake;
};

/// Frames pass through the codec, so tests meet the checks of the wire. Both ends of a connection
/// must be dialled and listened for on the same transport.
class LoopbackTransport final : public Transport {
 public:
  /// `thread` must outlive the transport.
  explicit LoopbackTransport(NetworkThread& thread, LoopbackOptions options = {});
  ~LoopbackTransport() override;

  NetworkThread& thread() override { return thread_; }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint,
                                           AcceptHandler on_accept) override;
  /// Never takes time: the deadline only matters where it has passed.
  void dial(const Endpoint& endpoint, Deadline deadline, std::shared_ptr<ConnectionHandler> handler,
            DialHandler done) override;

 private:
  class End;
  class LoopbackListener;
  struct Ports;

  NetworkThread& thread_;
  const LoopbackOptions options_;
  const std::shared_ptr<Ports> ports_;  ///< shared with the listeners
};

}  // namespace paceline::net
