#include "rest/respond.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/responses.h"

namespace paceline::rest {

void respond(http::Exchange& exchange, const api::ApiError& error) {
  http::Response response;
  response.status = error.status;
  response.body = api::dump(api::to_json(error));
  response.headers = api::error_headers(error);
  exchange.respond(std::move(response));
}

void respond(http::Exchange& exchange, const nlohmann::ordered_json& body) {
  respond_text(exchange, api::dump(body));
}

void respond_text(http::Exchange& exchange, std::string body) {
  http::Response response;
  response.body = std::move(body);
  exchange.respond(std::move(response));
}

}  // namespace paceline::rest
