// Message structs <-> the bytes of a frame's protobuf header. Internal to src/wire: others use
// codec.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace paceline::wire {

/// What the header says about a tensor of the payload.
struct TensorDescription {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

struct MessageHeader {
  Message message;
  std::vector<TensorDescription> tensors;
};

/// The message must have passed validate().
Result<std::vector<std::byte>> encode_header(const Message& message,
                                             std::span<const TensorDescription> tensors);

/// Checks what is lost in the structs (unknown numbers, a kind that differs, sizes that would
/// multiply in memory); the rest is validate()'s.
Result<MessageHeader> decode_header(Kind kind, std::span<const std::byte> bytes,
                                    const Limits& limits);

}  // namespace paceline::wire
