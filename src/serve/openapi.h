// The description of the HTTP API, docs/openapi.json, as the server gives it at /openapi.json.
#pragma once

#include <string_view>

namespace paceline::serve {

std::string_view openapi_json();

}  // namespace paceline::serve
