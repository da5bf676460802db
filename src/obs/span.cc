#include "obs/span.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/hex.h"

namespace paceline::obs {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusError = 2;

Json value_json(const LogField& field) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) return {{"stringValue", value}};
        // 64 bits are text in Protobuf's JSON.
        if constexpr (std::is_same_v<T, std::int64_t>) return {{"intValue", std::to_string(value)}};
        if constexpr (std::is_same_v<T, double>) return {{"doubleValue", value}};
        if constexpr (std::is_same_v<T, bool>) return {{"boolValue", value}};
      },
      field.value);
}

Json attributes_json(const std::vector<LogField>& fields) {
  Json list = Json::array();
  for (const LogField& field : fields) {
    list.push_back({{"key", field.name}, {"value", value_json(field)}});
  }
  return list;
}

Json span_json(const Span& span) {
  Json json = {{"traceId", trace_id_text(span.context)}, {"spanId", span_id_text(span.context)}};
  if (span.parent) json["parentSpanId"] = to_hex(*span.parent);
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = std::to_string(span.begin_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns);
  json["attributes"] = attributes_json(span.attributes);
  if (span.has_failed) json["status"] = {{"code", kStatusError}};
  return json;
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, std::string_view service_name,
                      std::string_view version) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(span_json(span));
  Json scope_spans = {{"scope", {{"name", "paceline"}, {"version", version}}},
                      {"spans", std::move(list)}};
  Json resource = {{"attributes", attributes_json({{"service.name", std::string(service_name)},
                                                   {"service.version", std::string(version)}})}};
  Json resource_spans = {{"resource", std::move(resource)},
                         {"scopeSpans", Json::array({std::move(scope_spans)})}};
  const Json body = {{"resourceSpans", Json::array({std::move(resource_spans)})}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace paceline::obs
