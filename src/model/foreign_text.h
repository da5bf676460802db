// Text of foreign files as it may stand in a one-line message of ours.
#pragma once

#include <string>
#include <string_view>

namespace paceline::model {

/// The text in double quotes: control and non-ASCII bytes, quotes and backslashes escaped, and what
/// is beyond `max_bytes` of the source cut off and replaced by "...".
std::string in_quotes(std::string_view text, std::size_t max_bytes = 64);

}  // namespace paceline::model
