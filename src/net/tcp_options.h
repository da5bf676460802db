// What can be set on TCP connections.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/clock.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace paceline::net {

struct TcpOptions {
  wire::Limits limits;
  /// Bytes that may wait to be sent; one frame is always taken by an empty queue.
  std::size_t send_queue_bytes = std::size_t{256} << 20;
  /// From accepting until the first frame is complete.
  Duration first_frame_timeout = std::chrono::seconds(10);
  /// Without a byte in the middle of a frame, sent or received.
  Duration stall_timeout = std::chrono::seconds(30);
  /// For sending what is queued after close().
  Duration linger_timeout = std::chrono::seconds(2);
  /// Accepted and open at once, per listener; more are refused.
  std::size_t max_connections = 256;
  wire::FirstFrame first_frame = wire::FirstFrame::kHandshake;
};

}  // namespace paceline::net
