#include "cli/trace_export.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/version.h"
#include "http/client.h"

namespace paceline::cli {
namespace {

constexpr const char* kPath = "/v1/traces";
/// A receiver that is slower keeps its spans waiting, and this program's end for so long.
constexpr auto kSilence = std::chrono::seconds(3);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string with_path(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url + kPath;
}

obs::SpanDelivery deliver(http::Client& client, const std::string& body) {
  http::ClientRequest request;
  request.method = "POST";
  request.body = body;
  const auto response = client.ask(request);
  if (!response) return obs::SpanDelivery::kLater;
  const int status = response->status;
  if (status >= 200 && status < 300) return obs::SpanDelivery::kTaken;
  // As OTLP has it: these may be mended by time, all others not.
  const bool is_passing = status == 429 || status == 502 || status == 503 || status == 504;
  return is_passing ? obs::SpanDelivery::kLater : obs::SpanDelivery::kRefused;
}

}  // namespace

std::string traces_url(const std::string& flag) {
  if (!flag.empty()) return with_path(flag);
  if (std::string own = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); !own.empty()) return own;
  const std::string common = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
  return common.empty() ? "" : with_path(common);
}

Result<std::unique_ptr<obs::SpanExporter>> export_traces(const std::string& url,
                                                         obs::Metrics& metrics) {
  if (url.empty()) return nullptr;
  http::ClientOptions client_options;
  client_options.silence = kSilence;
  client_options.max_body_bytes = std::size_t{1} << 20;
  auto client = http::Client::make(url, client_options);
  if (!client) return fail(client.error().with_context("--otlp-endpoint"));
  obs::SpanExporterOptions options;
  options.version = kVersion;
  if (std::string name = variable("OTEL_SERVICE_NAME"); !name.empty()) {
    options.service_name = std::move(name);
  }
  return std::make_unique<obs::SpanExporter>(
      std::move(options),
      [client = *std::move(client)](const std::string& body) mutable {
        return deliver(client, body);
      },
      metrics);
}

}  // namespace paceline::cli
