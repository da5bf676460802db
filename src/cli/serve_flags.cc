#include "cli/serve_flags.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "api/model_request.h"
#include "http/api_keys.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

/// For a shell, whatever is in it.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// As a package is called: its directory.
std::string directory_name(const fs::path& package) {
  std::error_code ignored;
  return (fs::absolute(package, ignored) / "").lexically_normal().parent_path().filename().string();
}

/// One value each time: what follows may be a package.
void add_list(CLI::App& command, const char* flag, std::vector<std::string>& values,
              const char* meaning) {
  command.add_option(flag, values, meaning)->take_all()->allow_extra_args(false);
}

/// A directory that is there may have a '=' in its name.
serve::ModelSource source_of(const std::string& model) {
  std::error_code ignored;
  const std::size_t equals = model.find('=');
  if (equals == std::string::npos || fs::is_directory(model, ignored)) {
    return {{directory_name(model)}, model};
  }
  return {{model.substr(0, equals)}, model.substr(equals + 1)};
}

}  // namespace

Result<std::vector<serve::ModelSource>> ServeFlags::model_sources() const {
  std::vector<serve::ModelSource> sources;
  for (const std::string& model : models) sources.push_back(source_of(model));
  if (!names.empty() && sources.size() != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "--served-model-name names the one package; of several give NAME=PACKAGE");
  }
  if (!names.empty()) sources.front().names = names;
  for (const serve::ModelSource& source : sources) {
    for (const std::string& name : source.names) {
      if (api::is_model_name(name)) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "{}: '{}' cannot be a model's name, expected at most 128 bytes without quotes; "
                  "give NAME=PACKAGE",
                  source.package.string(), name);
    }
  }
  return sources;
}

Result<http::ServerOptions> ServeFlags::server_options() const {
  http::ServerOptions options;
  options.address = host;
  options.port = port;
  options.max_body_bytes = max_body_bytes;
  options.allowed_hosts = allowed_hosts;
  options.cors_origins = cors_origins;
  options.tls_certificate = tls_certificate;
  options.tls_key = tls_key;
  if (!api_keys.empty()) {
    PACELINE_ASSIGN_OR_RETURN(options.api_keys, http::ApiKeys::open(api_keys));
  }
  return options;
}

void ServeFlags::add_to(CLI::App& command) {
  chain.max_waiting = 256;
  add_models_to(command);
  chain.add_chain_to(command);
  add_access_to(command);
  command
      .add_option("--max-waiting", chain.max_waiting,
                  "Answers of a model that wait for a place at most; above it clients get 429")
      ->check(CLI::Range(1U, 65536U))
      ->capture_default_str();
  command.add_option("--max-body", max_body_bytes, "Of a request, e.g. 64MB")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--state-dir", state_directory,
                     "Where files and batches are kept; without it paceline in $XDG_STATE_HOME or "
                     "~/.local/state");
  command.add_option("--otlp-endpoint", otlp_endpoint,
                     "Send traces there, by OTLP over HTTP: http://HOST:4318; without it "
                     "OTEL_EXPORTER_OTLP_ENDPOINT, or nowhere");
  command.add_option("--log-format", log_format, "text, or json: an object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_option("--log-level", log_level, "debug, info (each request), warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  command
      .add_option("--drain-seconds", drain_seconds,
                  "After a signal, and of a model that is unloaded: how long answers under way may "
                  "take")
      ->capture_default_str();
}

void ServeFlags::add_models_to(CLI::App& command) {
  command.add_option("models,--package,-p", models,
                     "Packages (see paceline compile), or NAME=PACKAGE; the first is the default");
  add_list(command, "--served-model-name", names,
           "What requests call the one package, repeated where it has several names; without it "
           "the package's directory");
  add_list(command, "--model-dir", model_directories,
           "A directory of packages that may be loaded while the server runs (paceline load); may "
           "be repeated");
}

void ServeFlags::add_access_to(CLI::App& command) {
  command.add_option("--host", host, "Address to listen on")->capture_default_str();
  command.add_option("--port", port, "0: any free one")->capture_default_str();
  command.add_option("--api-keys", api_keys,
                     "A file of lines NAME:SHA256-OF-THE-KEY; with it each request needs a key");
  auto* certificate = command.add_option("--tls-cert", tls_certificate,
                                         "PEM certificate chain: HTTPS instead of HTTP");
  auto* key = command.add_option("--tls-key", tls_key, "Its private key")->needs(certificate);
  certificate->needs(key);
  add_list(command, "--allowed-host", allowed_hosts,
           "A name by which browsers may reach this server; may be repeated");
  add_list(command, "--cors-origin", cors_origins,
           "A page's origin that may read answers, or *; may be repeated");
}

std::string base_url(const ServeFlags& flags, const std::string& url) {
  if (flags.tls_certificate.empty() || flags.allowed_hosts.empty()) return url;
  return fmt::format("https://{}{}", flags.allowed_hosts.front(), url.substr(url.rfind(':')));
}

std::string how_to_ask(const ServeFlags& flags, const std::string& url, const std::string& model,
                       bool can_chat) {
  std::string options;
  if (!flags.tls_certificate.empty()) options += " --cacert " + quoted(flags.tls_certificate);
  if (!flags.api_keys.empty()) options += " -H \"Authorization: Bearer $PACELINE_API_KEY\"";
  const std::string asked =
      can_chat ? R"("messages":[{"role":"user","content":"Hello"}])" : R"("prompt":"Hello")";
  return fmt::format(
      "curl {}/v1/{} -H 'Content-Type: application/json'{} -d '{{\"model\":\"{}\",{}}}'",
      base_url(flags, url), can_chat ? "chat/completions" : "completions", options, model, asked);
}

}  // namespace paceline::cli
