#include "batch/batch_lines.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/responses.h"

namespace paceline::batch {
namespace {

using api::Json;

constexpr std::size_t kMaxCustomId = 512;

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

/// Why it is none.
std::optional<api::ApiError> read_request(const Json& json, std::string_view endpoint,
                                          RequestLine& line) {
  std::optional<api::ApiError> problem;
  api::Fields fields(json, problem);
  fields.require("custom_id");
  line.custom_id = fields.text("custom_id", kMaxCustomId).value_or("");
  fields.require("method");
  (void)fields.one_of("method", {"POST"});
  fields.require("url");
  if (const auto url = fields.text("url", 256); url && *url != endpoint) {
    fields.refuse("url", fmt::format("expected the batch's endpoint, {}", endpoint));
  }
  fields.require("body");
  const Json* body = fields.object("body");
  if (body == nullptr) return problem;
  api::Fields inner = fields.inside(*body, "body.");
  if (inner.boolean("stream").value_or(false)) {
    inner.refuse_unsupported("stream", "is not offered in batches");
  }
  const auto own = inner.integer("priority", -1000000, 1000000).value_or(0);
  if (problem) return problem;
  Json asked = *body;
  asked["priority"] = std::max<std::int64_t>(-1000000, std::min(own, std::int64_t{0}) + kPriority);
  line.body = api::dump(asked);
  return std::nullopt;
}

RequestLine read_line(std::string_view text, std::string_view endpoint,
                      std::set<std::string>& known) {
  RequestLine line;
  const auto json = api::parse_body(text);
  if (!json) {
    line.error = json.error().message;
    return line;
  }
  if (const auto problem = read_request(*json, endpoint, line)) {
    line.error = problem->message;
  } else if (!known.insert(line.custom_id).second) {
    line.error = "custom_id: an earlier line has the same";
  }
  if (!line.error.empty()) line.body.clear();
  return line;
}

}  // namespace

bool is_batch_endpoint(std::string_view endpoint) {
  return endpoint == "/v1/chat/completions" || endpoint == "/v1/completions" ||
         endpoint == "/v1/responses";
}

Result<std::vector<RequestLine>> read_lines(std::string_view text, std::string_view endpoint) {
  std::vector<RequestLine> lines;
  std::set<std::string> known;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (lines.size() == kMaxLines) {
      return fail(ErrorCode::kInvalidArgument, "the file: expected at most {} lines", kMaxLines);
    }
    lines.push_back(read_line(line, endpoint, known));
  }
  if (lines.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the file: expected lines of JSON, got none");
  }
  return lines;
}

std::string answer_line(std::string_view request_id, std::string_view custom_id, int status,
                        std::string_view body) {
  Json answer = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) answer = std::string(body);
  const Json line = {
      {"id", request_id},
      {"custom_id", custom_id},
      {"response",
       {{"status_code", status}, {"request_id", request_id}, {"body", std::move(answer)}}},
      {"error", nullptr}};
  return api::dump(line);
}

std::string error_line(std::string_view request_id, std::string_view custom_id,
                       std::string_view code, std::string_view message) {
  const Json line = {{"id", request_id},
                     {"custom_id", text_or_null(custom_id)},
                     {"response", nullptr},
                     {"error", {{"code", code}, {"message", message}}}};
  return api::dump(line);
}

}  // namespace paceline::batch
