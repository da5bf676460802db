// The W3C header "traceparent": which trace a request belongs to. Knows nothing of spans' export.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::obs {

struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> parent_id{};  ///< the span that asks
  bool is_sampled = false;
  bool operator==(const TraceContext&) const = default;
};

/// Nothing where the text is not valid: the request then begins a trace of its own. Of versions
/// after 00 what is known is taken, as the specification asks.
std::optional<TraceContext> parse_traceparent(std::string_view text);

/// "00-<32 hex digits>-<16 hex digits>-<01 or 00>"
std::string format_traceparent(const TraceContext& context);

/// A new span in the same trace: its id is what goes on as the parent.
TraceContext child_of(const TraceContext& parent);
/// The first span of a new trace.
TraceContext new_trace(bool is_sampled);

std::string trace_id_text(const TraceContext& context);
std::string span_id_text(const TraceContext& context);

}  // namespace paceline::obs
