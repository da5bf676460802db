// The connection to the next stage: dial, hello, comparison, then boundary tensors.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "net/transport.h"
#include "wire/messages.h"

namespace paceline::worker {

/// Who this worker is, to its neighbours.
struct StageIdentity {
  std::string name;
  std::string openvino_version;
  std::string isa;
};

/// Where a link leads, and what the stage there is to agree with.
struct LinkTarget {
  std::string peer_address;  ///< "host:port" of the next stage's worker
  wire::Address address;     ///< of the next stage
  wire::LinkStage offer;
};

/// Thread-safe after connect().
class DownstreamLink {
 public:
  /// Called once, on a network thread, when an established link is gone.
  using OnLost = std::function<void(const Error&)>;

  /// Blocks until the next stage has accepted the offer, or the deadline. Errors name the peer's
  /// address. Not for the network thread.
  static Result<std::unique_ptr<DownstreamLink>> connect(net::Transport& transport,
                                                         const LinkTarget& target,
                                                         const StageIdentity& identity,
                                                         OnLost on_lost, Deadline deadline);
  ~DownstreamLink();

  Status send(wire::Frame frame);

 private:
  class Handler;
  DownstreamLink(std::shared_ptr<Handler> handler, std::shared_ptr<net::Connection> connection);

  std::shared_ptr<Handler> handler_;
  std::shared_ptr<net::Connection> connection_;
};

}  // namespace paceline::worker
