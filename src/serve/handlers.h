// What is done for each route of the API.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/answer_parser.h"
#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/embedding_request.h"
#include "api/response_request.h"
#include "base/clock.h"
#include "http/exchange.h"
#include "http/router.h"
#include "obs/metrics.h"
#include "obs/span_exporter.h"
#include "serve/model_registry.h"
#include "serve/ping_timer.h"

namespace paceline::serve {

struct HandlerOptions {
  Duration ping_interval = std::chrono::seconds(15);
  obs::Metrics* metrics = nullptr;     ///< null: nothing is counted
  obs::SpanExporter* spans = nullptr;  ///< null: no traces; must outlive all models
  obs::RequestLog* log = nullptr;      ///< null: none is kept
};

/// Thread-safe. The registry and the clock must outlive it, and it the server that calls it.
class Handlers {
 public:
  using Exchange = std::shared_ptr<http::Exchange>;

  Handlers(ModelRegistry& registry, const Clock& clock, const HandlerOptions& options);

  /// All of them but /metrics, which has more to look at than is here.
  std::vector<http::Route> routes();

  void list_models(http::Exchange& exchange);
  void show_model(http::Exchange& exchange);
  void chat(const Exchange& exchange);
  void complete(const Exchange& exchange);
  void create_response(const Exchange& exchange);
  void embed(const Exchange& exchange);
  void tokenize(http::Exchange& exchange);
  void detokenize(http::Exchange& exchange);
  void health(http::Exchange& exchange);
  void version(http::Exchange& exchange);
  void describe(http::Exchange& exchange);
  /// Needs HandlerOptions::metrics.
  void show_metrics(http::Exchange& exchange);

 private:
  using MakeReply = std::function<std::shared_ptr<Reply>(Reply::Parts parts,
                                                         const api::AnswerParserOptions& parsing)>;
  /// Ids of its answers begin with `id_prefix`.
  void run_chat(const Exchange& exchange, const api::ChatRequest& request, const char* id_prefix,
                const MakeReply& make_reply);
  void run_completion(const Exchange& exchange, const api::CompletionRequest& request,
                      const ModelRegistry::Found& found);
  void run_embedding(const Exchange& exchange, const api::EmbeddingRequest& request,
                     const ModelRegistry::Found& found);
  Reply::Parts parts_for(const Exchange& exchange, const ModelRegistry::Found& found,
                         const api::GenerationFields& asked, const char* id_prefix) const;

  ModelRegistry& registry_;
  const Clock& clock_;
  const HandlerOptions options_;
  PingTimer pings_;
};

}  // namespace paceline::serve
