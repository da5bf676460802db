#include "batch/batch_lines.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/responses.h"

namespace paceline::batch {
namespace {

using api::Json;

constexpr std::size_t kMaxCustomId = 512;

std::int64_t count_in(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) return 0;
  return json[name].is_number_integer() ? json[name].get<std::int64_t>() : 0;
}

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
         endpoint == "/v1/responses" || endpoint == "/v1/embeddings";
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

AnsweredLine answer_line(std::string_view request_id, std::string_view custom_id, int status,
                         std::string_view body) {
  Json answer = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) answer = std::string(body);
  const LineUsage usage = status == 200 && answer.is_object() && answer.contains("usage")
                              ? read_usage(answer["usage"])
                              : LineUsage();
  const Json line = {
      {"id", request_id},
      {"custom_id", custom_id},
      {"response",
       {{"status_code", status}, {"request_id", request_id}, {"body", std::move(answer)}}},
      {"error", nullptr}};
  return {api::dump(line), usage};
}

LineUsage& LineUsage::operator+=(const LineUsage& other) {
  input_tokens += other.input_tokens;
  cached_tokens += other.cached_tokens;
  output_tokens += other.output_tokens;
  reasoning_tokens += other.reasoning_tokens;
  return *this;
}

Json to_json(const LineUsage& usage) {
  return {{"input_tokens", usage.input_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.input_tokens + usage.output_tokens}};
}

LineUsage read_usage(const Json& json) {
  LineUsage usage;
  // Chats and completions have other words for it than responses and batches.
  usage.input_tokens = count_in(json, "input_tokens") + count_in(json, "prompt_tokens");
  usage.output_tokens = count_in(json, "output_tokens") + count_in(json, "completion_tokens");
  for (const char* details : {"input_tokens_details", "prompt_tokens_details"}) {
    if (json.contains(details)) usage.cached_tokens += count_in(json[details], "cached_tokens");
  }
  for (const char* details : {"output_tokens_details", "completion_tokens_details"}) {
    if (json.contains(details)) {
      usage.reasoning_tokens += count_in(json[details], "reasoning_tokens");
    }
  }
  return usage;
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
