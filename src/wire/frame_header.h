// The 48 bytes that begin a frame. docs/wire.md has the offsets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace paceline::wire {

/// What this side speaks.
inline constexpr VersionRange kProtocolVersions{1, 3};

inline constexpr std::size_t kFrameHeaderBytes = 48;

struct FrameHeader {
  std::uint16_t version = kProtocolVersions.max;
  Kind kind = Kind::kNone;
  Address address;
  std::uint32_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

std::array<std::byte, kFrameHeaderBytes> pack(const FrameHeader& header);

/// Errors: kDataLoss for a wrong magic, kFailedPrecondition for another version (except of Hello
/// and Fault, which every version can read), kUnimplemented for unknown kinds and flags.
Result<FrameHeader> unpack(std::span<const std::byte, kFrameHeaderBytes> bytes);

/// Refuses lengths beyond the limits (kResourceExhausted) before any memory is taken for them. A
/// handshake frame is a connection's first and must be Hello, Welcome, Fault or Goodbye.
Status check_lengths(const FrameHeader& header, const Limits& limits, bool is_handshake);

/// Highest common version; kFailedPrecondition with a sentence that says which side to update.
Result<std::uint16_t> negotiate_version(VersionRange own, VersionRange peer);

}  // namespace paceline::wire
