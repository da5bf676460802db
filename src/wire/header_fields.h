// Counts the fields of a protobuf header before it is parsed.
//
// Two bytes of a header (an empty nested message) become about a hundred in memory, so a bound of
// its length alone does not bound what parsing takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace paceline::wire {

/// Fields of the message `Header` in `bytes`, nested and unknown ones counted, packed lists as one.
/// kDataLoss where the bytes are no well-formed message, kResourceExhausted beyond `most` fields.
Result<std::uint64_t> count_header_fields(std::span<const std::byte> bytes, std::uint64_t most);

}  // namespace paceline::wire
