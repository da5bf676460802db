// Where `paceline serve` sends its traces: an OTLP/HTTP receiver.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "obs/metrics.h"
#include "obs/span_exporter.h"

namespace paceline::cli {

/// The URL that spans are posted to: `flag` and, where that is empty, the variables that
/// OpenTelemetry has for it, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT as it is, and
/// OTEL_EXPORTER_OTLP_ENDPOINT with /v1/traces behind it. Empty: none is wanted.
std::string traces_url(const std::string& flag);

/// nullptr where `url` is empty; kInvalidArgument where it is none.
Result<std::unique_ptr<obs::SpanExporter>> export_traces(const std::string& url,
                                                         obs::Metrics& metrics);

}  // namespace paceline::cli
