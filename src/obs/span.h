// Spans of a trace, and the form in which OTLP/HTTP wants them. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "obs/log.h"
#include "obs/trace_context.h"

namespace paceline::obs {

/// The numbers are OTLP's.
enum class SpanKind { kInternal = 1, kServer = 2 };

/// A part of what was done for a request. Names and attributes are ours: nothing of prompts,
/// answers or keys.
struct Span {
  TraceContext context;  ///< its parent_id is this span's own id
  std::optional<std::array<std::uint8_t, 8>> parent = {};
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  std::int64_t begin_ns = 0;  ///< since 1970
  std::int64_t end_ns = 0;
  bool has_failed = false;
  std::vector<LogField> attributes = {};
};

/// The body of a POST to /v1/traces, in OTLP's JSON encoding.
std::string otlp_json(std::span<const Span> spans, std::string_view service_name,
                      std::string_view version);

}  // namespace paceline::obs
