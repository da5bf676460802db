// One direction of one relayed connection, without sockets or a clock: which bytes are due when,
// and what the faults make of them. Internal to src/net.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "net/relay.h"

namespace paceline::net {

/// Thread-compatible. Lifecycle: push() what arrives, pop() what is due; times must not go back.
class RelayPipe {
 public:
  explicit RelayPipe(const RelayDirection& direction) : direction_(direction) {}

  /// Bytes that arrived at `now`; they are due at now + delay, later where bandwidth is limited.
  void push(std::vector<std::byte> bytes, TimePoint now);
  /// The sender will send no more: passed on after what is in the pipe, and as late.
  void push_end(TimePoint now);

  /// When the next piece is due; nullopt: nothing is on its way.
  std::optional<TimePoint> next_due() const;

  struct Piece {
    std::vector<std::byte> bytes;
    bool is_end = false;  ///< shut down sending after the bytes
    bool is_cut = false;  ///< close both sides after the bytes
  };
  /// The piece that is due at `now`, if any, with the faults done to it.
  std::optional<Piece> pop(TimePoint now);

  std::size_t held_bytes() const { return held_bytes_; }
  void stall() { direction_.stall_after = 0; }

 private:
  struct Waiting {
    TimePoint due;
    Piece piece;
  };
  void apply_faults(Piece& piece);

  RelayDirection direction_;
  std::deque<Waiting> waiting_;
  std::size_t held_bytes_ = 0;
  std::uint64_t passed_ = 0;
  TimePoint link_free_at_{};
};

}  // namespace paceline::net
