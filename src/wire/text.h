// Text on the wire: UTF-8 without control characters, so that a peer's words can go into a log
// line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::wire {

/// Well-formed UTF-8 (RFC 3629: shortest form, no surrogates) without C0, DEL and C1 controls.
bool is_valid_text(std::string_view text);

/// `text` with a '?' for each byte that is_valid_text() would refuse, cut to `max_bytes`, never
/// within a character.
std::string clean_text(std::string_view text, std::size_t max_bytes);

}  // namespace paceline::wire
