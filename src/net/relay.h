// A relay between two peers that makes a link slow or faulty, for tests and benchmarks.
//
// It works on bytes, knows no frames, and never serializes: each piece is due its own arrival +
// delay, so 100 frames sent together over 50 ms arrive about 50 ms later. Only bandwidth makes
// pieces wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "net/endpoint.h"
#include "net/network_thread.h"

namespace paceline::net {

/// What happens to the bytes of one direction. Offsets count from each connection's first byte.
struct RelayDirection {
  Duration delay = Duration::zero();
  std::uint64_t bytes_per_second = 0;      ///< 0: no limit
  std::optional<std::uint64_t> cut_after;  ///< close both sides when this many bytes were passed
  std::optional<std::uint64_t>
      stall_after;                       ///< pass no more, keep both sides open (half-open peer)
  std::optional<std::uint64_t> flip_at;  ///< invert the bits of the byte at this offset
};

struct RelayOptions {
  Endpoint listen{"127.0.0.1", 0};
  Endpoint target;
  RelayDirection forward;   ///< from who connected to the relay, to the target
  RelayDirection backward;  ///< the other way
  bool refuse = false;      ///< close each connection at once
  /// In flight per direction; a relay that holds more stops reading. At least bandwidth x delay.
  std::size_t buffer_bytes = std::size_t{256} << 20;
};

/// Relays until destroyed. Thread-safe.
class Relay {
 public:
  /// `thread` must outlive the relay. kUnavailable where the address cannot be bound.
  static Result<std::unique_ptr<Relay>> start(NetworkThread& thread, RelayOptions options);
  ~Relay();

  const Endpoint& endpoint() const { return endpoint_; }
  /// Closes all connections that are open now.
  void cut();
  /// From now on passes no byte of the connections that are open now, and keeps them open.
  void stall();

 private:
  class Loop;
  Relay(NetworkThread& thread, std::shared_ptr<Loop> loop, Endpoint endpoint);

  NetworkThread& thread_;
  const std::shared_ptr<Loop> loop_;  ///< shared with the operations under way
  const Endpoint endpoint_;
};

}  // namespace paceline::net
