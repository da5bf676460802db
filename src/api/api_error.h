// What clients are told when something fails: HTTP status, type, field and code, as OpenAI has
// them.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "base/error.h"

namespace paceline::api {

struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message = {};
  std::string param = {};  ///< the field at fault; empty: null
  std::string code = {};   ///< for programs; empty: null
  int retry_after_s = 0;   ///< of the header Retry-After; 0: none
  bool may_retry = true;   ///< else clients are told not to (x-should-retry)
  friend bool operator==(const ApiError&, const ApiError&) = default;
};

template <typename T>
using Parsed = tl::expected<T, ApiError>;

/// A field that is not as it should be: 400.
ApiError invalid_field(std::string param, std::string message);
/// A field whose meaning is known and not offered: 400, code "unsupported_parameter".
ApiError unsupported_field(std::string param, std::string_view why);
/// 404, code "model_not_found".
ApiError unknown_model(std::string_view name);
/// 400, code "context_length_exceeded".
ApiError context_exceeded(std::size_t prompt_tokens, std::size_t context);
/// The same of input number `index` to /v1/embeddings.
ApiError input_exceeds_context(std::size_t index, std::size_t tokens, std::size_t context);
/// The same, by the field that asks for more than fits behind the prompt.
ApiError limit_exceeds_context(std::size_t prompt_tokens, std::string_view field, std::size_t limit,
                               std::size_t context);
/// 503 with Retry-After: the model is still being loaded.
ApiError still_loading(std::string_view name);
/// 503, code "model_not_loaded", not to be tried again: it is `state`, and stays so until told.
ApiError not_loaded(std::string_view name, std::string_view state);
/// A model that was to be loaded or unloaded and could not be: with the error's own words, since
/// who may ask for that is to mend it.
ApiError load_refused(std::string_view name, const Error& error);

/// By one table from the error's code. What is no fault of the request is told without details,
/// which name machines: they are for the log.
ApiError from_error(const Error& error);

/// The headers that tell clients when, or not, to ask again: Retry-After, x-should-retry.
std::map<std::string, std::string> error_headers(const ApiError& error);

/// {"error": {"message", "type", "param", "code"}}.
nlohmann::ordered_json to_json(const ApiError& error);

}  // namespace paceline::api
