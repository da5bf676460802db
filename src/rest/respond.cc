#include "rest/respond.h"

#include <nlohmann/json.hpp>
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
  http::Response response;
  response.body = api::dump(body);
  exchange.respond(std::move(response));
}

}  // namespace paceline::rest
