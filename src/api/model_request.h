// The bodies of POST /v1/models/load and /v1/models/unload.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/fields.h"

namespace paceline::api {

struct ModelRequest {
  std::string model;
  std::string path;                     ///< load: a package; empty: the one of that name
  std::optional<double> drain_seconds;  ///< unload: how long answers under way may take
};

/// Both bodies have all fields.
Parsed<ModelRequest> parse_model_request(std::string_view body);

/// 1 to 128 bytes without control characters, quotes and backslashes: names are shown, counted by,
/// and part of commands that people copy.
bool is_model_name(std::string_view name);

}  // namespace paceline::api
