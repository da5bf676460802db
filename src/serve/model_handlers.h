// The routes that load and unload models: for operators.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "http/exchange.h"
#include "http/router.h"
#include "serve/model_manager.h"
#include "serve/model_registry.h"

namespace paceline::serve {

/// Thread-safe. The manager and the registry must outlive it.
class ModelHandlers {
 public:
  using Exchange = std::shared_ptr<http::Exchange>;

  /// `drain`: what answers under way may take where a request does not say.
  ModelHandlers(ModelManager& manager, const ModelRegistry& registry, Duration drain)
      : manager_(manager), registry_(registry), drain_(drain) {}

  /// POST /v1/models/load and unload. They answer when it is done.
  std::vector<http::Route> routes();
  void load(const Exchange& exchange);
  void unload(const Exchange& exchange);

 private:
  ModelManager::Done answer_to(const Exchange& exchange, const std::string& name) const;

  ModelManager& manager_;
  const ModelRegistry& registry_;
  const Duration drain_;
};

}  // namespace paceline::serve
