// UTF-8 as foreign bytes need it: is it any, and where does a character end.
#pragma once

#include <cstddef>
#include <string_view>

namespace paceline {

/// Bytes of the well-formed character that `text` starts with; 0 where it starts with none
/// (Unicode 15, table 3-7: no overlong forms, no surrogates, at most U+10FFFF).
std::size_t first_character_bytes(std::string_view text);

/// Whether all of `text` is well-formed.
bool is_utf8(std::string_view text);

}  // namespace paceline
