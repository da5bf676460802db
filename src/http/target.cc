#include "http/target.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "http/ascii.h"

namespace paceline::http {
namespace {

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  const char lower = lower_case(c);
  if (lower >= 'a' && lower <= 'f') return static_cast<unsigned>(lower - 'a') + 10;
  return {};
}

std::optional<std::string> decoded(std::string_view text, char space) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i] == space ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return {};
    const auto high = hex_digit(text[i + 1]);
    const auto low = hex_digit(text[i + 2]);
    if (!high || !low) return {};
    result += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return result;
}

Status parse_path(std::string_view path, Target& target) {
  std::string_view rest = path.substr(1);
  while (true) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    auto segment = decoded(rest.substr(0, end), '\0');
    if (!segment) return fail(ErrorCode::kInvalidArgument, "path: expected two hex digits after %");
    if (std::any_of(segment->begin(), segment->end(), is_control)) {
      return fail(ErrorCode::kInvalidArgument, "path: control characters are not allowed");
    }
    target.path += '/';
    target.path += *segment;
    target.segments.push_back(std::move(*segment));
    if (end == rest.size()) return {};
    rest.remove_prefix(end + 1);
  }
}

Status parse_query(std::string_view query, Target& target) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = decoded(pair.substr(0, equals), '+');
    auto value = decoded(pair.substr(std::min(equals + 1, pair.size())), '+');
    if (!name || !value) {
      return fail(ErrorCode::kInvalidArgument, "query: expected two hex digits after %");
    }
    target.query.insert_or_assign(std::move(*name), std::move(*value));
  }
  return {};
}

/// Takes "http://host:port" off the front.
void take_authority(std::string_view& text, Target& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(text.substr(0, scheme.size()), scheme)) continue;
    text.remove_prefix(scheme.size());
    const std::size_t end = std::min(text.find_first_of("/?"), text.size());
    target.authority = text.substr(0, end);
    text.remove_prefix(end);
    return;
  }
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  Target target;
  if (text == "*") {
    target.path = "*";
    return target;
  }
  take_authority(text, target);
  const std::size_t end = std::min(text.find('?'), text.size());
  std::string_view path = text.substr(0, end);
  if (path.empty() && !target.authority.empty()) path = "/";
  if (path.empty() || path.front() != '/') {
    return fail(ErrorCode::kInvalidArgument, "request line: expected a path that begins with /");
  }
  if (text.find('#') != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "request line: a # is not allowed in the path");
  }
  PACELINE_RETURN_IF_ERROR(parse_path(path, target));
  PACELINE_RETURN_IF_ERROR(parse_query(text.substr(std::min(end + 1, text.size())), target));
  return target;
}

}  // namespace paceline::http
