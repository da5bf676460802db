#include "api/model_request.h"

#include <algorithm>

namespace paceline::api {
namespace {

constexpr std::size_t kMaxName = 128;
constexpr std::size_t kMaxPath = 4096;
constexpr double kMaxDrainSeconds = 86400;

}  // namespace

bool is_model_name(std::string_view name) {
  const auto is_fine = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= ' ' && byte != 0x7F && c != '\'' && c != '"' && c != '\\';
  };
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), is_fine);
}

Parsed<ModelRequest> parse_model_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  ModelRequest read;
  fields.require("model");
  read.model = fields.text("model", kMaxPath).value_or("");
  if (!is_model_name(read.model)) {
    fields.refuse("model", fmt::format("expected a name of at most {} bytes without quotes and "
                                       "control characters",
                                       kMaxName));
  }
  read.path = fields.text("path", kMaxPath).value_or("");
  if (read.path.find('\0') != std::string::npos) fields.refuse("path", "has a zero byte");
  read.drain_seconds = fields.number("drain_seconds", 0, kMaxDrainSeconds);
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

}  // namespace paceline::api
