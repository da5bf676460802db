// paceline serve: chains behind the HTTP API that OpenAI's clients speak.
#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/batch_service.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_loader.h"
#include "cli/model_sections.h"
#include "cli/serve_flags.h"
#include "cli/trace_export.h"
#include "coordinator/local_workers.h"
#include "http/server.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/request_log.h"
#include "page/page.h"
#include "serve/fleet_monitor.h"
#include "serve/handlers.h"
#include "serve/model_handlers.h"
#include "serve/model_manager.h"
#include "serve/model_registry.h"
#include "system/wall_clock.h"

namespace paceline::cli {
namespace {

/// What all parts count and look at.
struct Observed {
  obs::Metrics metrics;
  obs::RequestLog requests;
  std::atomic<http::Server*> server = nullptr;  ///< once it listens
};

/// What had no answer is in the log of requests, too; answers put themselves there.
void note_refused(obs::RequestLog& requests, const http::AccessRecord& record) {
  if (record.status < 400 || record.method != "POST" || !record.route.starts_with("/v1/")) return;
  obs::RequestRecord refused;
  refused.id = record.request_id;
  refused.route = record.route;
  refused.tenant = record.tenant;
  refused.unix_seconds = system::unix_seconds();
  refused.whole = record.duration;
  refused.end = "refused";
  refused.status = record.status;
  requests.add_refused(std::move(refused));
}

void note_access(Observed& observed, const http::AccessRecord& record) {
  observed.metrics.count_http(record.method, record.route, record.status, record.duration);
  note_refused(observed.requests, record);
  // An open page asks every second.
  const bool is_page = record.route == "/fleet" || record.route.starts_with("/assets/");
  obs::log(is_page ? obs::LogLevel::kDebug : obs::LogLevel::kInfo, "request",
           {{"request_id", record.request_id},
            {"method", record.method},
            {"route", record.route},
            {"status", std::int64_t{record.status}},
            {"ms", to_milliseconds(record.duration)},
            {"bytes", static_cast<std::int64_t>(record.sent_bytes)},
            {"tenant", record.tenant},
            {"complete", record.is_complete}});
}

/// Who has routes.
struct Parts {
  serve::Handlers& handlers;
  serve::ModelHandlers& models;
  serve::FleetMonitor& fleet;
  BatchService* batches = nullptr;
};

Result<std::unique_ptr<http::Server>> start_server(const ServeFlags& flags, const Parts& parts,
                                                   Observed& observed) {
  PACELINE_ASSIGN_OR_RETURN(auto options, flags.server_options());
  options.access_log = [&observed](const http::AccessRecord& record) {
    note_access(observed, record);
  };
  http::Router router;
  const auto show_metrics = [&handlers = parts.handlers,
                             &observed](const serve::Handlers::Exchange& exchange) {
    if (const http::Server* server = observed.server) {
      const http::ServerCounts counts = server->counts();
      observed.metrics.set_http_open(counts.connections, counts.requests, counts.streams);
    }
    handlers.show_metrics(*exchange);
  };
  router.add("GET", "/metrics", show_metrics);
  for (auto& route : parts.handlers.routes()) router.add(std::move(route));
  for (auto& route : parts.models.routes()) router.add(std::move(route));
  for (auto& route : parts.fleet.routes()) router.add(std::move(route));
  for (auto& route : page::routes()) router.add(std::move(route));
  if (parts.batches != nullptr) {
    for (auto& route : parts.batches->routes()) router.add(std::move(route));
  }
  PACELINE_ASSIGN_OR_RETURN(auto server,
                            http::Server::start(std::move(options), std::move(router)));
  observed.server = server.get();
  return server;
}

/// What is served by now, and how to ask for it.
void show_models(const ServeFlags& flags, const std::string& url,
                 const serve::ModelRegistry& registry) {
  std::string hint;
  for (const api::ModelCard& card : registry.cards()) {
    const auto found = registry.find(card.id);
    if (!found) {
      fmt::print("{}: {} (paceline load {})\n", card.status, card.id, card.id);
      continue;
    }
    fmt::print("ready: {} at {}/v1\n", card.id, base_url(flags, url));
    if (hint.empty()) hint = how_to_ask(flags, url, card.id, found->model->chat() != nullptr);
  }
  if (!hint.empty()) fmt::print("try: {}\n", hint);
  fmt::print("page: {}/\n", base_url(flags, url));
  std::fflush(stdout);
}

/// Lines of batches are answered as requests by HTTP are.
batch::Executor executor_of(serve::Handlers& handlers) {
  std::map<std::string, http::Handler> by_path;
  for (auto& route : handlers.routes()) {
    if (route.method == "POST") by_path[route.pattern] = std::move(route.handler);
  }
  return [by_path](const std::string& endpoint, const serve::Handlers::Exchange& exchange) {
    const auto found = by_path.find(endpoint);
    if (found != by_path.end()) found->second(exchange);
  };
}

using Sections = std::vector<ModelSection>;

/// Each with the flags of all and those of its own section.
serve::ModelManager::Loader loader_of(const ServeFlags& flags, const Sections& sections,
                                      obs::Metrics& metrics) {
  using Loaded = Result<std::unique_ptr<serve::ServedModel>>;
  return [&flags, &sections, &metrics](const serve::ModelSource& source) -> Loaded {
    PACELINE_ASSIGN_OR_RETURN(auto chain, chain_of(sections, source.name(), flags.chain));
    chain.package = source.package.string();
    return load_model(chain, metrics.model(source.name()));
  };
}

/// Those of the command line, then those of the file; these are loaded now where the command line
/// names none.
Status add_models(const ServeFlags& flags, const Sections& sections, serve::ModelManager& manager) {
  PACELINE_ASSIGN_OR_RETURN(auto sources, flags.model_sources());
  const bool is_of_file = sources.empty();
  for (serve::ModelSource& source : sources) {
    PACELINE_RETURN_IF_ERROR(manager.add(std::move(source), /*is_wanted=*/true));
  }
  bool has_any = !is_of_file || !flags.model_directories.empty();
  for (const ModelSection& section : sections) {
    if (section.package.empty() || manager.knows(section.name)) continue;
    has_any = true;
    PACELINE_RETURN_IF_ERROR(
        manager.add({{section.name}, section.package}, is_of_file && section.load));
  }
  if (has_any) return {};
  return fail(ErrorCode::kInvalidArgument,
              "expected a package, NAME=PACKAGE, --model-dir, or [model.NAME] in a configuration "
              "file; see paceline serve --help");
}

Status serve(const ServeFlags& flags, const SettingsEntries& entries) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const auto log_format, obs::parse_log_format(flags.log_format));
  PACELINE_ASSIGN_OR_RETURN(const auto log_level, obs::parse_log_level(flags.log_level));
  obs::set_up_log(log_format, log_level);
  const SteadyClock clock;
  const auto drain = std::chrono::seconds(flags.drain_seconds);
  PACELINE_ASSIGN_OR_RETURN(const Sections sections, model_sections(entries));
  Observed observed;
  // Before all that has requests, as the last of them gives its spans away.
  PACELINE_ASSIGN_OR_RETURN(const auto spans,
                            export_traces(traces_url(flags.otlp_endpoint), observed.metrics));
  serve::ModelRegistry registry;
  const auto& directories = flags.model_directories;
  serve::ModelManager manager(registry, serve::ModelShelf({directories.begin(), directories.end()}),
                              loader_of(flags, sections, observed.metrics));
  PACELINE_RETURN_IF_ERROR(add_models(flags, sections, manager));
  serve::HandlerOptions options;
  options.metrics = &observed.metrics;
  options.spans = spans.get();
  options.log = &observed.requests;
  serve::Handlers handlers(registry, clock, options);
  serve::ModelHandlers model_handlers(manager, registry, drain);
  serve::FleetMonitor fleet(registry, observed.requests, clock);
  fleet.start();
  PACELINE_ASSIGN_OR_RETURN(const auto batches, BatchService::open(flags.state_directory));
  const Parts parts = {handlers, model_handlers, fleet, batches.get()};
  PACELINE_ASSIGN_OR_RETURN(const auto server, start_server(flags, parts, observed));
  // Listens before the models are there: who asks too early is told to come again.
  fmt::print("{}{}\n", coordinator::kListeningPrefix, server->url());
  std::fflush(stdout);
  PACELINE_RETURN_IF_ERROR(manager.load_all());
  show_models(flags, server->url(), registry);
  if (batches) batches->start(executor_of(handlers));
  wait_for_interrupt();
  if (batches) batches->stop();  // what is under way is asked again at the next start
  fmt::print(stderr, "paceline: waits for {} requests, at most {} s; again to end at once\n",
             server->counts().requests, flags.drain_seconds);
  server->drain(Deadline::after(drain));
  return {};
}

}  // namespace

void add_serve_command(CLI::App& app, Status& done, const SettingsEntries& entries) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command =
      app.add_subcommand("serve", "Answer over HTTP as OpenAI's API does, with chains of stages");
  flags->add_to(*command);
  command->callback([flags, &entries, &done] { done = serve(*flags, entries); });
}

}  // namespace paceline::cli
