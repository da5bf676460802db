#include "wire/frame_header.h"

#include <algorithm>
#include <concepts>

namespace paceline::wire {
namespace {

constexpr std::uint32_t kMagic = 0x50414345;  // "PACE"

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  template <std::unsigned_integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_[i] = static_cast<std::byte>((value >> (8 * (sizeof(T) - 1 - i))) & 0xffU);
    }
    out_ = out_.subspan(sizeof(T));
  }

 private:
  std::span<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <std::unsigned_integral T>
  T get() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = (value << 8U) | static_cast<std::uint64_t>(in_[i]);
    }
    in_ = in_.subspan(sizeof(T));
    return static_cast<T>(value);
  }

 private:
  std::span<const std::byte> in_;
};

std::string to_string(VersionRange range) {
  return range.min == range.max ? fmt::format("{}", range.min)
                                : fmt::format("{} to {}", range.min, range.max);
}

tl::unexpected<Error> version_mismatch(VersionRange own, VersionRange peer) {
  return fail(ErrorCode::kFailedPrecondition,
              "protocol version: this side speaks {}, the peer speaks {}: update {}",
              to_string(own), to_string(peer), peer.min > own.max ? "this side" : "the peer");
}

bool is_read_in_every_version(Kind kind) { return kind == Kind::kHello || kind == Kind::kFault; }

bool may_come_first(Kind kind) {
  return kind == Kind::kHello || kind == Kind::kWelcome || kind == Kind::kFault ||
         kind == Kind::kGoodbye;
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> pack(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  Writer writer(bytes);
  writer.put(kMagic);
  writer.put(header.version);
  writer.put(static_cast<std::uint16_t>(header.kind));
  writer.put(header.address.chain.value());
  writer.put(header.address.epoch.value());
  writer.put(header.address.stage.value());
  writer.put(header.address.step.value());
  writer.put(header.header_bytes);
  writer.put(std::uint32_t{0});
  writer.put(header.payload_bytes);
  return bytes;
}

Result<FrameHeader> unpack(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  Reader reader(bytes);
  const auto magic = reader.get<std::uint32_t>();
  if (magic != kMagic) {
    return fail(ErrorCode::kDataLoss, "magic: expected 'PACE' (0x{:08x}), got 0x{:08x}", kMagic,
                magic);
  }
  FrameHeader header;
  header.version = reader.get<std::uint16_t>();
  const auto kind = reader.get<std::uint16_t>();
  header.kind = static_cast<Kind>(kind);
  const bool is_spoken =
      header.version >= kProtocolVersions.min && header.version <= kProtocolVersions.max;
  if (!is_spoken && !is_read_in_every_version(header.kind)) {
    return version_mismatch(kProtocolVersions, {header.version, header.version});
  }
  const bool is_known = kind > 0 && kind <= std::variant_size_v<Message>;
  // Of another version only Hello and Fault come here.
  if (!is_known || header.version < version_of(header.kind)) {
    return fail(ErrorCode::kUnimplemented, "kind: {} is not known to protocol version {}", kind,
                header.version);
  }
  header.address.chain = ChainId(reader.get<std::uint64_t>());
  header.address.epoch = Epoch(reader.get<std::uint32_t>());
  header.address.stage = StageId(reader.get<std::uint32_t>());
  header.address.step = StepId(reader.get<std::uint64_t>());
  header.header_bytes = reader.get<std::uint32_t>();
  const auto flags = reader.get<std::uint32_t>();
  if (flags != 0) return fail(ErrorCode::kUnimplemented, "flags: expected 0, got 0x{:x}", flags);
  header.payload_bytes = reader.get<std::uint64_t>();
  return header;
}

Status check_lengths(const FrameHeader& header, const Limits& limits, bool is_handshake) {
  if (is_handshake && !may_come_first(header.kind)) {
    return fail(ErrorCode::kFailedPrecondition, "first frame: expected hello or welcome, got {}",
                to_string(header.kind));
  }
  const std::uint32_t most = is_handshake
                                 ? std::min(limits.header_bytes, limits.handshake_header_bytes)
                                 : limits.header_bytes;
  if (header.header_bytes > most) {
    return fail(ErrorCode::kResourceExhausted, "header_bytes: {}, at most {}", header.header_bytes,
                most);
  }
  std::uint64_t most_payload = 0;
  if (header.kind == Kind::kStep) most_payload = limits.payload_bytes;
  if (header.kind == Kind::kPiece) most_payload = limits.piece_bytes;
  if (header.payload_bytes > most_payload) {
    return fail(ErrorCode::kResourceExhausted, "payload_bytes: {}, at most {} in {}",
                header.payload_bytes, most_payload, to_string(header.kind));
  }
  return {};
}

Result<std::uint16_t> negotiate_version(VersionRange own, VersionRange peer) {
  if (peer.min > peer.max) {
    return fail(ErrorCode::kInvalidArgument, "hello.versions: min {} is above max {}", peer.min,
                peer.max);
  }
  if (peer.min > own.max || own.min > peer.max) return version_mismatch(own, peer);
  return std::min(own.max, peer.max);
}

}  // namespace paceline::wire
