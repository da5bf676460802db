#include "api/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace paceline::api {
namespace {

/// Schemas of tools nest; nothing real comes near it.
constexpr std::size_t kMaxDepth = 64;
/// Prompts as token ids: one value each.
constexpr std::size_t kMaxValues = std::size_t{4} << 20;

std::string shown_value(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  return text;
}

std::string expected(std::string_view what, const Json& got) {
  return fmt::format("expected {}, got {}", what, shown_value(got));
}

/// An integer however it is written; none where it is no integer of 64 bits.
std::optional<std::int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > INT64_MAX) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  // 2^53: beyond it a double does not tell integers apart.
  if (std::abs(number) > 9007199254740992.0 || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

Parsed<Json> parse_body(std::string_view body) {
  ApiError error;
  error.code = "invalid_json";
  const auto checked = parse_json(body, kMaxDepth, kMaxValues);
  if (!checked) {
    error.message = fmt::format("The body {}", checked.error().message());
    return tl::unexpected(error);
  }
  if (!checked->is_object()) {
    error.message = fmt::format("The body: expected a JSON object, got {}", shown(*checked));
    return tl::unexpected(error);
  }
  return Json::parse(body, nullptr, /*allow_exceptions=*/false);
}

void Fields::keep(ApiError error) {
  if (!problem_) problem_ = std::move(error);
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> Fields::boolean(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  refuse(name, expected("true or false", *value));
  return std::nullopt;
}

std::optional<double> Fields::number(const char* name, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= low && number <= high) return number;
  }
  refuse(name, expected(fmt::format("a number from {} to {}", low, high), *value));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(const char* name, std::int64_t low, std::int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (number && *number >= low && *number <= high) return number;
  refuse(name, expected(fmt::format("an integer from {} to {}", low, high), *value));
  return std::nullopt;
}

std::optional<std::string> Fields::text(const char* name, std::size_t max_bytes) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse(name, expected("a string", *value));
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() <= max_bytes) return text;
  refuse(name, fmt::format("expected at most {} bytes, got {}", max_bytes, text.size()));
  return std::nullopt;
}

std::optional<std::string> Fields::one_of(const char* name,
                                          std::initializer_list<const char*> names) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  for (const char* candidate : names) {
    if (value->is_string() && *value == candidate) return candidate;
  }
  refuse(name, expected(fmt::format("one of {}", fmt::join(names, ", ")), *value));
  return std::nullopt;
}

const Json* Fields::array(const char* name, std::size_t max_items) {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (value->is_array() && value->size() <= max_items) return value;
  refuse(name, expected(fmt::format("an array of at most {}", max_items), *value));
  return nullptr;
}

const Json* Fields::object(const char* name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  refuse(name, expected("an object", *value));
  return nullptr;
}

void Fields::require(const char* name) {
  if (has(name)) return;
  ApiError error = invalid_field(path(name), "is missing");
  error.code = "missing_required_parameter";
  keep(std::move(error));
}

void Fields::refuse(const char* name, std::string message) {
  keep(invalid_field(path(name), std::move(message)));
}

void Fields::refuse_unsupported(const char* name, std::string_view why) {
  keep(unsupported_field(path(name), why));
}

}  // namespace paceline::api
