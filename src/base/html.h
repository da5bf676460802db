// Text for HTML and SVG. Pure.
#pragma once

#include <string>
#include <string_view>

namespace paceline {

/// &, <, >, " and ' as entities; what is no UTF-8, and control characters, as question marks.
std::string escape_html(std::string_view text);

}  // namespace paceline
