// Frames <-> bytes. Pure: no sockets, no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "wire/frame_header.h"
#include "wire/header_codec.h"
#include "wire/limits.h"
#include "wire/messages.h"
#include "wire/payload_buffer.h"

namespace paceline::wire {

/// A frame ready for a scatter-gather write: `head`, then each tensor's bytes, not copied.
struct EncodedFrame {
  std::vector<std::byte> head;  ///< fixed header and message header
  std::vector<SharedBytes> payload;
  std::uint64_t size_bytes = 0;  ///< of all parts
};

/// Refuses what the other side would refuse (validate.h). The text of a Fault, of a Goodbye and of
/// a failed StepResult is cleaned and shortened instead, so that a failure can always be told.
Result<EncodedFrame> encode(Frame frame, const Limits& limits = {});

/// All bytes of an encoded frame in one piece; for tests and transports without scatter-gather.
std::vector<std::byte> flatten(const EncodedFrame& encoded);

/// Whether a connection's first frame must be of the handshake (Hello, Welcome, Fault, Goodbye).
enum class FirstFrame { kHandshake, kAny };

/// Frames out of bytes as they arrive. Thread-compatible.
///
/// A reader either copies with feed(), or reads into next_span() and then calls advance(): tensor
/// bytes so land in their final place. Lengths are checked as soon as the fixed header is there;
/// payload memory grows as bytes arrive. After an error every call returns that error.
class FrameDecoder {
 public:
  explicit FrameDecoder(Limits limits = {}, FirstFrame first = FirstFrame::kAny);

  /// Where the next bytes go: at least one, at most what is missing of the frame's current part.
  /// Empty after an error. Valid until the next call of a non-const member.
  std::span<std::byte> next_span();
  /// `count` bytes were written to next_span(). Returns a frame where one became complete.
  Result<std::optional<Frame>> advance(std::size_t count);

  /// Takes any number of bytes; appends to `frames` what became complete, also before an error.
  Status feed(std::span<const std::byte> bytes, std::vector<Frame>& frames);

  /// Whether a frame is begun and not complete (a closed connection then lost something).
  bool is_mid_frame() const { return part_ != Part::kFixed || filled_ > 0; }

 private:
  enum class Part { kFixed, kHeader, kPayload };

  Result<std::optional<Frame>> finish_part();
  Status finish_fixed();
  Status finish_header();
  /// Passes tensors that are complete (also empty ones); a frame after the last.
  std::optional<Frame> finish_tensors();

  Limits limits_;
  bool expects_handshake_;
  std::optional<Error> error_;
  Part part_ = Part::kFixed;
  std::size_t filled_ = 0;  ///< of the current part; of the current tensor in the payload
  std::array<std::byte, kFrameHeaderBytes> fixed_{};
  FrameHeader header_;
  PayloadBuffer header_bytes_;
  MessageHeader message_;
  std::vector<Tensor> tensors_;  ///< those that are complete
  PayloadBuffer tensor_bytes_;
};

}  // namespace paceline::wire
