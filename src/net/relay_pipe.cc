#include "net/relay_pipe.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace paceline::net {

void RelayPipe::push(std::vector<std::byte> bytes, TimePoint now) {
  link_free_at_ = std::max(link_free_at_, now);
  if (direction_.bytes_per_second > 0) {
    const std::chrono::duration<double> sending(static_cast<double>(bytes.size()) /
                                                static_cast<double>(direction_.bytes_per_second));
    link_free_at_ += std::chrono::duration_cast<Duration>(sending);
  }
  held_bytes_ += bytes.size();
  waiting_.push_back({link_free_at_ + direction_.delay, {std::move(bytes), false, false}});
}

void RelayPipe::push_end(TimePoint now) {
  link_free_at_ = std::max(link_free_at_, now);
  waiting_.push_back({link_free_at_ + direction_.delay, {{}, true, false}});
}

std::optional<TimePoint> RelayPipe::next_due() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().due;
}

std::optional<RelayPipe::Piece> RelayPipe::pop(TimePoint now) {
  if (waiting_.empty() || waiting_.front().due > now) return std::nullopt;
  Piece piece = std::move(waiting_.front().piece);
  waiting_.pop_front();
  held_bytes_ -= piece.bytes.size();
  apply_faults(piece);
  return piece;
}

void RelayPipe::apply_faults(Piece& piece) {
  const std::uint64_t end = passed_ + piece.bytes.size();
  if (direction_.flip_at && *direction_.flip_at >= passed_ && *direction_.flip_at < end) {
    piece.bytes[static_cast<std::size_t>(*direction_.flip_at - passed_)] ^= std::byte{0xff};
  }
  const auto keep_until = [&](std::uint64_t offset) {
    const std::uint64_t left = offset > passed_ ? offset - passed_ : 0;
    if (left < piece.bytes.size()) piece.bytes.resize(static_cast<std::size_t>(left));
  };
  if (direction_.stall_after && end > *direction_.stall_after) keep_until(*direction_.stall_after);
  // A stalled direction does not end either.
  if (direction_.stall_after && end >= *direction_.stall_after) piece.is_end = false;
  if (direction_.cut_after && end >= *direction_.cut_after) {
    keep_until(*direction_.cut_after);
    piece.is_cut = true;
  }
  passed_ = end;
}

}  // namespace paceline::net
