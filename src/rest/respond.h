// Answers of handlers: the schema's objects and errors as an exchange's answer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/api_error.h"
#include "http/exchange.h"

namespace paceline::rest {

/// Sends an error where nothing was sent before.
void respond(http::Exchange& exchange, const api::ApiError& error);
/// 200 with this body.
void respond(http::Exchange& exchange, const nlohmann::ordered_json& body);
/// The same of JSON that is text already.
void respond_text(http::Exchange& exchange, std::string body);

}  // namespace paceline::rest
