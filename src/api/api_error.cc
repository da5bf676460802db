#include "api/api_error.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace paceline::api {
namespace {

struct Row {
  ErrorCode error;
  int status;
  const char* type;
  const char* code;  ///< null: none
  int retry_after_s;
};

constexpr const char* kInvalidRequest = "invalid_request_error";
constexpr const char* kServerError = "server_error";

/// Every code of base/error.h; what retrying may mend says when.
constexpr std::array kTable = {
    Row{ErrorCode::kUnknown, 500, kServerError, nullptr, 0},
    Row{ErrorCode::kInvalidArgument, 400, kInvalidRequest, nullptr, 0},
    Row{ErrorCode::kNotFound, 404, kInvalidRequest, "not_found", 0},
    Row{ErrorCode::kAlreadyExists, 409, kInvalidRequest, "already_exists", 0},
    Row{ErrorCode::kPermissionDenied, 403, "permission_error", "permission_denied", 0},
    Row{ErrorCode::kResourceExhausted, 429, "rate_limit_error", "queue_full", 1},
    Row{ErrorCode::kFailedPrecondition, 400, kInvalidRequest, nullptr, 0},
    Row{ErrorCode::kAborted, 503, kServerError, "aborted", 1},
    Row{ErrorCode::kOutOfRange, 400, kInvalidRequest, nullptr, 0},
    Row{ErrorCode::kUnimplemented, 400, kInvalidRequest, "unsupported", 0},
    Row{ErrorCode::kInternal, 500, kServerError, "internal", 0},
    Row{ErrorCode::kUnavailable, 503, kServerError, "unavailable", 5},
    Row{ErrorCode::kDataLoss, 500, kServerError, "data_loss", 0},
    Row{ErrorCode::kDeadlineExceeded, 504, kServerError, "timeout", 0},
    Row{ErrorCode::kCancelled, 499, kInvalidRequest, "cancelled", 0},
};

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

/// With the error's own message.
ApiError by_table(const Error& error) {
  const auto* row = std::find_if(kTable.begin(), kTable.end(),
                                 [&error](const Row& row) { return row.error == error.code(); });
  if (row == kTable.end()) row = kTable.begin();
  ApiError shown;
  shown.status = row->status;
  shown.type = row->type;
  if (row->code != nullptr) shown.code = row->code;
  shown.retry_after_s = row->retry_after_s;
  shown.message = error.message();
  return shown;
}

}  // namespace

ApiError invalid_field(std::string param, std::string message) {
  ApiError error;
  error.message = fmt::format("{}: {}", param, message);
  error.param = std::move(param);
  error.code = "invalid_value";
  return error;
}

ApiError unsupported_field(std::string param, std::string_view why) {
  ApiError error;
  error.message = fmt::format("{}: {}", param, why);
  error.param = std::move(param);
  error.code = "unsupported_parameter";
  return error;
}

ApiError unknown_model(std::string_view name) {
  ApiError error;
  error.status = 404;
  error.message = fmt::format("The model '{}' does not exist; GET /v1/models lists those that do",
                              name.substr(0, 200));
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiError context_exceeded(std::size_t prompt_tokens, std::size_t context) {
  ApiError error;
  error.message =
      fmt::format("The prompt has {} tokens, and the model's context {}", prompt_tokens, context);
  error.code = "context_length_exceeded";
  return error;
}

ApiError input_exceeds_context(std::size_t index, std::size_t tokens, std::size_t context) {
  ApiError error = context_exceeded(tokens, context);
  // One place of the context is kept for the token behind the text.
  error.message = fmt::format(
      "input {} has {} tokens, expected at most {}: the model's context is "
      "{}, and inputs are taken whole",
      index, tokens, context - 1, context);
  error.param = "input";
  return error;
}

ApiError limit_exceeds_context(std::size_t prompt_tokens, std::string_view field, std::size_t limit,
                               std::size_t context) {
  ApiError error = context_exceeded(prompt_tokens, context);
  error.message = fmt::format("The prompt's {} tokens and {} {} exceed the model's context of {}",
                              prompt_tokens, field, limit, context);
  error.param = field;
  return error;
}

ApiError still_loading(std::string_view name) {
  ApiError error;
  error.status = 503;
  error.type = kServerError;
  error.message = fmt::format("The model '{}' is being loaded", name.substr(0, 200));
  error.code = "loading";
  error.retry_after_s = 5;
  return error;
}

ApiError not_loaded(std::string_view name, std::string_view state) {
  ApiError error;
  error.status = 503;
  error.type = kServerError;
  error.message = fmt::format("The model '{}' is {}; POST /v1/models/load loads it",
                              name.substr(0, 200), state);
  error.param = "model";
  error.code = "model_not_loaded";
  error.may_retry = false;
  return error;
}

ApiError load_refused(std::string_view name, const Error& error) {
  ApiError shown = by_table(error);
  shown.message = fmt::format("The model '{}': {}", name.substr(0, 200), error.message());
  shown.param = "model";
  if (error.code() == ErrorCode::kResourceExhausted) {
    shown.status = 400;
    shown.type = kInvalidRequest;
    shown.code = "insufficient_memory";
  }
  if (error.code() == ErrorCode::kNotFound) shown.code = "model_not_found";
  shown.retry_after_s = 0;
  shown.may_retry = false;
  return shown;
}

ApiError from_error(const Error& error) {
  ApiError shown = by_table(error);
  if (shown.status >= 500) {
    shown.message = fmt::format("The model could not answer ({}); the server's log says why",
                                to_string(error.code()));
    shown.may_retry = shown.retry_after_s > 0;
  }
  return shown;
}

std::map<std::string, std::string> error_headers(const ApiError& error) {
  std::map<std::string, std::string> headers;
  if (error.retry_after_s > 0) headers["Retry-After"] = std::to_string(error.retry_after_s);
  if (!error.may_retry) headers["x-should-retry"] = "false";
  return headers;
}

nlohmann::ordered_json to_json(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

}  // namespace paceline::api
