#include "api/embedding_request.h"

namespace paceline::api {
namespace {

constexpr const char* kExpected =
    "expected a string, an array of strings, token ids, or an array of arrays of token ids";
constexpr std::size_t kMaxInputs = 2048;

bool is_ids(const Json& value) {
  if (!value.is_array() || value.empty()) return false;
  for (const Json& id : value) {
    if (!id.is_number_unsigned()) return false;
  }
  return true;
}

void check_input(Fields& fields) {
  fields.require("input");
  const Json* input = fields.find("input");
  if (input == nullptr) return;
  if (input->is_string()) {
    if (*input == "") fields.refuse("input", "expected text, got an empty string");
    return;
  }
  if (is_ids(*input)) return;
  if (!input->is_array() || input->empty()) return fields.refuse("input", kExpected);
  if (input->size() > kMaxInputs) {
    return fields.refuse(
        "input", fmt::format("expected at most {} inputs, got {}", kMaxInputs, input->size()));
  }
  for (const Json& item : *input) {
    const bool is_text = item.is_string() && item != "";
    if (!is_text && !is_ids(item)) return fields.refuse("input", kExpected);
  }
}

}  // namespace

Parsed<EmbeddingRequest> parse_embedding_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  EmbeddingRequest read;
  read.model = fields.text("model", 4096).value_or("");
  check_input(fields);
  (void)fields.one_of("encoding_format", {"float", "base64"});
  (void)fields.integer("dimensions", 1, 1 << 20);
  (void)fields.text("user", 4096);
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

ApiError no_embeddings(std::string_view model) {
  ApiError error;
  error.message = fmt::format(
      "The model '{}' gives no embeddings: it predicts the next token, and the last stage of its "
      "chain gives tokens and their log-probabilities alone; use a model made for embeddings",
      model.substr(0, 200));
  error.param = "model";
  error.code = "unsupported_model";
  return error;
}

}  // namespace paceline::api
