// Tokens with a meaning of their own in a GGUF.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/gguf.h"

namespace paceline::model {

/// The id under an optional key, -1 without it; refused where it is not below `tokens`.
Result<std::int64_t> gguf_token_id(const GgufFile& file, std::string_view key,
                                   std::uint64_t tokens);

/// Those that end a reply, each once: the ends of a text, of a turn, and of a message that waits
/// for a tool's answer, by their keys, and the ends of a turn that older files name by their text
/// only.
Result<std::vector<std::int64_t>> gguf_ending_tokens(const GgufFile& file, std::uint64_t tokens);

}  // namespace paceline::model
