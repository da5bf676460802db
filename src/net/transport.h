// Connections that carry frames, whatever carries the bytes: TCP now, mutual TLS as a second
// implementation later, the process itself in tests.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "net/endpoint.h"
#include "net/network_thread.h"
#include "wire/messages.h"

namespace paceline::net {

/// What happens on a connection. Called on the network thread, one call at a time, so it must never
/// block or compute: hand over to a queue.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void on_frame(wire::Frame frame) = 0;
  /// The last call, exactly once: either side closed, or the link failed. The connection lets go of
  /// the handler after it.
  virtual void on_closed(const Error& reason) = 0;
};

/// Thread-safe. Shared by its user and by the operations under way on the network thread. Lives
/// until it is closed by either side, even where the user has let go of it.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Queues the frame; never waits. Frames arrive in the order of send(), tensor bytes are not
  /// copied and must not change. kUnavailable once closed, kResourceExhausted while the queue is
  /// full (nothing was queued), kInvalidArgument for what the peer would refuse.
  virtual Status send(wire::Frame frame) = 0;

  /// No frame is accepted or delivered any more; what is queued is still sent, for a bounded time.
  /// The handler gets on_closed(reason). The first reason counts.
  virtual void close(Error reason) = 0;

  /// From now on the connection ends (kDeadlineExceeded) once no byte has come for so long, as on a
  /// link that is cut without a word. For peers that ping. Any thread.
  virtual void set_silence_limit(Duration limit) = 0;

  /// The peer's address, for messages and logs.
  virtual const std::string& peer() const = 0;
};

/// Called on the network thread for each new connection, before any of its frames. An empty handler
/// refuses it.
using AcceptHandler =
    std::function<std::shared_ptr<ConnectionHandler>(const std::shared_ptr<Connection>&)>;

/// Accepts until destroyed; the connections live on. After the destructor the accept handler is not
/// called again.
class Listener {
 public:
  virtual ~Listener() = default;
  /// With the port that was bound where 0 was asked for.
  virtual const Endpoint& endpoint() const = 0;
};

/// Called once, on the network thread, before any frame of the connection.
using DialHandler = std::function<void(Result<std::shared_ptr<Connection>>)>;

/// Thread-safe. Its destructor closes its listeners and connections.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual NetworkThread& thread() = 0;

  /// kUnavailable with the address and the system's reason where it cannot be bound.
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint,
                                                   AcceptHandler on_accept) = 0;

  /// Connects and calls `done`; never waits. kUnavailable, or kDeadlineExceeded. The handler is
  /// kept only if the connection is made.
  virtual void dial(const Endpoint& endpoint, Deadline deadline,
                    std::shared_ptr<ConnectionHandler> handler, DialHandler done) = 0;
};

/// dial() for a thread that may wait (not the network thread: checked).
Result<std::shared_ptr<Connection>> dial_and_wait(Transport& transport, const Endpoint& endpoint,
                                                  Deadline deadline,
                                                  std::shared_ptr<ConnectionHandler> handler);

}  // namespace paceline::net
