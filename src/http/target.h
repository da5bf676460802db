// What a request asks for: path and query, taken apart and decoded. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::http {

struct Target {
  std::string path;  ///< decoded, without the query
  /// Decoded one by one, so that "%2F" does not end a segment. "/a/b" has two, "/" one, "".
  std::vector<std::string> segments;
  std::map<std::string, std::string> query;  ///< of a name that came twice, the last value
  std::string authority;                     ///< "host:port" of "http://host:port/path", else empty
};

/// "/path?name=value", "http://host/path" or "*"; kInvalidArgument for anything else, for percent
/// signs without two digits, and for control characters in the path.
Result<Target> parse_target(std::string_view text);

}  // namespace paceline::http
