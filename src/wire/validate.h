// The checks of a frame that both sides make: what is sent can be read.
#pragma once

#include <span>

#include "base/error.h"
#include "wire/header_codec.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace paceline::wire {

/// Counts, text, tensor sizes, and how the parts of a message fit together (docs/wire.md).
/// kInvalidArgument or kResourceExhausted, naming the field and what was expected.
Status validate(const Address& address, const Message& message,
                std::span<const TensorDescription> tensors, const Limits& limits);

}  // namespace paceline::wire
