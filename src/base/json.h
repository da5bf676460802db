// Foreign JSON, parsed within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline {

/// Parses foreign text: `max_depth` nested containers and `max_values` values and keys in all, so
/// memory is bounded by them, and each key of an object once. kInvalidArgument says what is wrong,
/// with the byte where the text is no JSON.
Result<nlohmann::json> parse_json(std::string_view text, std::size_t max_depth,
                                  std::size_t max_values);

/// An array of integers and nothing else, else nothing.
std::optional<std::vector<std::int64_t>> json_integers(const nlohmann::json& value);

/// A value as an error message shows it: short, one line, ASCII.
std::string shown(const nlohmann::json& value);

}  // namespace paceline
