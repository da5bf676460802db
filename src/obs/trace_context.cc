#include "obs/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>

#include "base/hex.h"

namespace paceline::obs {
namespace {

constexpr std::size_t kBytes = 55;

/// Lower case alone, as the specification says.
std::optional<unsigned> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  return {};
}

bool parse_hex(std::string_view text, std::span<std::uint8_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto high = digit(text[2 * i]);
    const auto low = digit(text[2 * i + 1]);
    if (!high || !low) return false;
    out[i] = static_cast<std::uint8_t>(*high * 16 + *low);
  }
  return true;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

/// Not zero, which no id may be.
void fill_randomly(std::span<std::uint8_t> bytes) {
  thread_local std::random_device device;
  do {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(device());
  } while (is_zero(bytes));
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  if (text.size() < kBytes) return {};
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  if (!parse_hex(text, version) || !parse_hex(text.substr(3), context.trace_id) ||
      !parse_hex(text.substr(36), context.parent_id) || !parse_hex(text.substr(53), flags)) {
    return {};
  }
  if (version[0] == 0xff) return {};
  if (text.size() > kBytes && (version[0] == 0 || text[kBytes] != '-')) return {};
  if (is_zero(context.trace_id) || is_zero(context.parent_id)) return {};
  context.is_sampled = (flags[0] & 1U) != 0;
  return context;
}

std::string format_traceparent(const TraceContext& context) {
  return fmt::format("00-{}-{}-{:02x}", trace_id_text(context), span_id_text(context),
                     context.is_sampled ? 1 : 0);
}

TraceContext child_of(const TraceContext& parent) {
  TraceContext child = parent;
  fill_randomly(child.parent_id);
  return child;
}

TraceContext new_trace(bool is_sampled) {
  TraceContext context;
  fill_randomly(context.trace_id);
  fill_randomly(context.parent_id);
  context.is_sampled = is_sampled;
  return context;
}

std::string trace_id_text(const TraceContext& context) { return to_hex(context.trace_id); }
std::string span_id_text(const TraceContext& context) { return to_hex(context.parent_id); }

}  // namespace paceline::obs
