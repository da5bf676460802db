#include "serve/model_handlers.h"

#include <chrono>
#include <utility>

#include "api/model_request.h"
#include "api/responses.h"
#include "serve/reply.h"

namespace paceline::serve {

std::vector<http::Route> ModelHandlers::routes() {
  return {{"POST", "/v1/models/load", [this](const Exchange& exchange) { load(exchange); }},
          {"POST", "/v1/models/unload", [this](const Exchange& exchange) { unload(exchange); }}};
}

/// With the model as it then is. Not the handlers' own: the answer may outlive them.
ModelManager::Done ModelHandlers::answer_to(const Exchange& exchange,
                                            const std::string& name) const {
  return [exchange, name, &registry = registry_](const Status& outcome) {
    if (!outcome) return respond(*exchange, api::load_refused(name, outcome.error()));
    for (const api::ModelCard& card : registry.cards()) {
      if (card.id == name) return respond(*exchange, api::model_object(card));
    }
    respond(*exchange, api::unknown_model(name));
  };
}

void ModelHandlers::load(const Exchange& exchange) {
  const auto request = api::parse_model_request(exchange->request().body);
  if (!request) return respond(*exchange, request.error());
  manager_.load(request->model, request->path, answer_to(exchange, request->model));
}

void ModelHandlers::unload(const Exchange& exchange) {
  const auto request = api::parse_model_request(exchange->request().body);
  if (!request) return respond(*exchange, request.error());
  Duration drain = drain_;
  if (request->drain_seconds) {
    drain = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(*request->drain_seconds));
  }
  manager_.unload(request->model, drain, answer_to(exchange, request->model));
}

}  // namespace paceline::serve
