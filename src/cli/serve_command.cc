// paceline serve: a chain behind the HTTP API that OpenAI's clients speak.
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
#include "cli/chain_flags.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/interrupt.h"
#include "cli/package_files.h"
#include "cli/trace_export.h"
#include "coordinator/local_workers.h"
#include "http/server.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/request_log.h"
#include "page/page.h"
#include "serve/fleet_monitor.h"
#include "serve/handlers.h"
#include "serve/model_reaper.h"
#include "serve/model_registry.h"
#include "serve/step_meter.h"
#include "system/wall_clock.h"

namespace paceline::cli {
namespace {

struct ServeFlags {
  ChainFlags chain;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::vector<std::string> names;
  std::string api_keys;
  std::string tls_certificate;
  std::string tls_key;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> cors_origins;
  std::uint32_t drain_seconds = 30;
  std::uint64_t max_body_bytes = 32ULL << 20;
  std::string state_directory;
  std::string otlp_endpoint;
  std::string log_format = "text";
  std::string log_level = "info";
};

/// What requests call the model: as told, else as the package is called.
std::vector<std::string> model_names(const ServeFlags& flags) {
  if (!flags.names.empty()) return flags.names;
  const std::filesystem::path path = std::filesystem::path(flags.chain.package) / "";
  return {path.parent_path().filename().string()};
}

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

Result<http::ServerOptions> server_options(const ServeFlags& flags, Observed& observed) {
  http::ServerOptions options;
  options.address = flags.host;
  options.port = flags.port;
  options.max_body_bytes = flags.max_body_bytes;
  options.allowed_hosts = flags.allowed_hosts;
  options.cors_origins = flags.cors_origins;
  options.tls_certificate = flags.tls_certificate;
  options.tls_key = flags.tls_key;
  if (!flags.api_keys.empty()) {
    PACELINE_ASSIGN_OR_RETURN(options.api_keys, http::ApiKeys::open(flags.api_keys));
  }
  options.access_log = [&observed](const http::AccessRecord& record) {
    note_access(observed, record);
  };
  return options;
}

Result<std::unique_ptr<http::Server>> start_server(const ServeFlags& flags,
                                                   serve::Handlers& handlers, BatchService* batches,
                                                   serve::FleetMonitor& fleet, Observed& observed) {
  PACELINE_ASSIGN_OR_RETURN(auto options, server_options(flags, observed));
  http::Router router;
  router.add("GET", "/metrics", [&handlers, &observed](const serve::Handlers::Exchange& exchange) {
    if (const http::Server* server = observed.server) {
      const http::ServerCounts counts = server->counts();
      observed.metrics.set_http_open(counts.connections, counts.requests, counts.streams);
    }
    handlers.show_metrics(*exchange);
  });
  for (auto& route : handlers.routes()) router.add(std::move(route));
  for (auto& route : fleet.routes()) router.add(std::move(route));
  for (auto& route : page::routes()) router.add(std::move(route));
  if (batches != nullptr) {
    for (auto& route : batches->routes()) router.add(std::move(route));
  }
  PACELINE_ASSIGN_OR_RETURN(auto server,
                            http::Server::start(std::move(options), std::move(router)));
  observed.server = server.get();
  return server;
}

Result<std::unique_ptr<serve::ServedModel>> load_model(const ChainFlags& flags,
                                                       obs::ModelMetrics& metrics) {
  const auto on_step = [&metrics](const auto& chain, const auto& step) {
    serve::count_step(metrics, step, chain.hop_row_bytes());
  };
  PACELINE_ASSIGN_OR_RETURN(auto opened, ChainSession::open(flags, on_step));
  const std::shared_ptr<ChainSession> session = std::move(opened);
  serve::ServedModel::Parts parts;
  const shard::Manifest& manifest = session->manifest();
  parts.facts.created = system::unix_seconds();
  parts.facts.context_tokens = session->chain().plan().context_tokens;
  parts.facts.vocabulary_size = manifest.vocabulary_size;
  parts.facts.sampling = manifest.model.sampling;
  parts.facts.kv_blocks = session->chain().plan().kv_blocks;
  parts.metrics = &metrics;
  parts.nodes = [session = session.get()] { return session->chain().nodes(); };
  PACELINE_ASSIGN_OR_RETURN(parts.facts.end_tokens, read_end_tokens(session->package()));
  parts.generator = &session->generator();
  if (const auto tokenizer = session->tokenizer()) parts.tokenizer = *tokenizer;
  auto format = load_chat_format(session->package());
  // A base model has none, and completes text only.
  if (!format && format.error().code() != ErrorCode::kNotFound) {
    return fail(std::move(format).error());
  }
  if (format) {
    parts.chat = serve::ChatFormat{std::move(format->chat_template), std::move(format->source),
                                   std::move(format->bos_token), std::move(format->eos_token)};
  }
  parts.stages = [&chain = session->chain()] {
    return serve::stage_views(chain.stages(), chain.workers());
  };
  parts.owner = session;
  return std::make_unique<serve::ServedModel>(std::move(parts));
}

void show_how_to_ask(const ServeFlags& flags, const std::string& url, const std::string& name,
                     bool can_chat) {
  const std::string key =
      flags.api_keys.empty() ? "" : " -H \"Authorization: Bearer $PACELINE_API_KEY\"";
  const std::string asked =
      can_chat ? R"("messages":[{"role":"user","content":"Hello"}])" : R"("prompt":"Hello")";
  fmt::print("ready: {} at {}/v1\n", name, url);
  fmt::print(
      "try: curl {}/v1/{} -H 'Content-Type: application/json'{} -d '{{\"model\":\"{}\",{}}}'\n",
      url, can_chat ? "chat/completions" : "completions", key, name, asked);
  fmt::print("page: {}/\n", url);
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

Status serve(const ServeFlags& flags) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const auto log_format, obs::parse_log_format(flags.log_format));
  PACELINE_ASSIGN_OR_RETURN(const auto log_level, obs::parse_log_level(flags.log_level));
  obs::set_up_log(log_format, log_level);
  const SteadyClock clock;
  Observed observed;
  // Before all that has requests, as the last of them gives its spans away.
  PACELINE_ASSIGN_OR_RETURN(const auto spans,
                            export_traces(traces_url(flags.otlp_endpoint), observed.metrics));
  serve::ModelReaper reaper;
  serve::ModelRegistry registry;
  const std::vector<std::string> names = model_names(flags);
  for (const std::string& name : names) registry.announce(name);
  serve::HandlerOptions options;
  options.metrics = &observed.metrics;
  options.spans = spans.get();
  options.log = &observed.requests;
  serve::Handlers handlers(registry, clock, options);
  serve::FleetMonitor fleet(registry, observed.requests, clock);
  fleet.start();
  PACELINE_ASSIGN_OR_RETURN(const auto batches, BatchService::open(flags.state_directory));
  PACELINE_ASSIGN_OR_RETURN(const auto server,
                            start_server(flags, handlers, batches.get(), fleet, observed));
  // Listens before the model is there: who asks too early is told to come again.
  fmt::print("{}{}\n", coordinator::kListeningPrefix, server->url());
  std::fflush(stdout);
  PACELINE_ASSIGN_OR_RETURN(auto loaded,
                            load_model(flags.chain, observed.metrics.model(names.front())));
  const auto model = reaper.adopt(std::move(loaded));
  for (const std::string& name : names) registry.set_ready(name, model);
  show_how_to_ask(flags, server->url(), names.front(), model->chat() != nullptr);
  if (batches) batches->start(executor_of(handlers));
  wait_for_interrupt();
  if (batches) batches->stop();  // what is under way is asked again at the next start
  fmt::print(stderr, "paceline: waits for {} requests, at most {} s; again to end at once\n",
             server->counts().requests, flags.drain_seconds);
  server->drain(Deadline::after(std::chrono::seconds(flags.drain_seconds)));
  return {};
}

void add_server_flags(CLI::App& command, ServeFlags& flags) {
  command.add_option("--host", flags.host, "Address to listen on")->capture_default_str();
  command.add_option("--port", flags.port, "0: any free one")->capture_default_str();
  command.add_option("--served-model-name", flags.names,
                     "What requests call the model, several where it has several names; without "
                     "it the package's directory");
  command.add_option("--api-keys", flags.api_keys,
                     "A file of lines NAME:SHA256-OF-THE-KEY; with it each request needs a key");
  auto* certificate = command.add_option("--tls-cert", flags.tls_certificate,
                                         "PEM certificate chain: HTTPS instead of HTTP");
  auto* key = command.add_option("--tls-key", flags.tls_key, "Its private key")->needs(certificate);
  certificate->needs(key);
  command.add_option("--allowed-host", flags.allowed_hosts,
                     "A name by which browsers may reach this server; may be repeated");
  command.add_option("--cors-origin", flags.cors_origins,
                     "A page's origin that may read answers, or *; may be repeated");
  command
      .add_option("--max-waiting", flags.chain.max_waiting,
                  "Answers that wait for a place at most; above it clients get 429")
      ->check(CLI::Range(1U, 65536U))
      ->capture_default_str();
  command.add_option("--max-body", flags.max_body_bytes, "Of a request, e.g. 64MB")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--state-dir", flags.state_directory,
                     "Where files and batches are kept; without it paceline in $XDG_STATE_HOME or "
                     "~/.local/state");
  command.add_option("--otlp-endpoint", flags.otlp_endpoint,
                     "Send traces there, by OTLP over HTTP: http://HOST:4318; without it "
                     "OTEL_EXPORTER_OTLP_ENDPOINT, or nowhere");
  command.add_option("--log-format", flags.log_format, "text, or json: an object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_option("--log-level", flags.log_level, "debug, info (each request), warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  command
      .add_option("--drain-seconds", flags.drain_seconds,
                  "After a signal: how long answers under way may take")
      ->capture_default_str();
}

}  // namespace

void add_serve_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<ServeFlags>();
  flags->chain.max_waiting = 256;
  CLI::App* command =
      app.add_subcommand("serve", "Answer over HTTP as OpenAI's API does, with a chain of stages");
  flags->chain.add_to(*command, "package,--package,-p");
  add_server_flags(*command, *flags);
  name_environment_variables(*command);
  command->callback([flags, &done] { done = serve(*flags); });
}

}  // namespace paceline::cli
