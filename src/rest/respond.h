// Answers of handlers: the schema's objects and errors as an exchange's answer.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/api_error.h"
#include "http/exchange.h"

namespace paceline::rest {

/// Sends an error where nothing was sent before.
void respond(http::Exchange& exchange, const api::ApiError& error);
/// 200 with this body.
void respond(http::Exchange& exchange, const nlohmann::ordered_json& body);

}  // namespace paceline::rest
