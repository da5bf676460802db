#include "api/embedding_request.h"

#include <utility>
#include <variant>

namespace paceline::api {
namespace {

constexpr std::size_t kMaxName = 4096;
/// Of all vectors of an answer: as many as the most inputs have of 4096 each. As numbers they are
/// 100 MB of text.
constexpr std::uint64_t kMaxValues = std::uint64_t{8} << 20;

void check_inputs(Fields& fields, const std::vector<PromptText>& inputs) {
  for (const PromptText& input : inputs) {
    const auto* text = std::get_if<std::string>(&input);
    if (text == nullptr || !text->empty()) continue;
    return fields.refuse("input", "expected text, got an empty string");
  }
}

}  // namespace

Parsed<EmbeddingRequest> parse_embedding_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  EmbeddingRequest read;
  read.model = fields.text("model", kMaxName).value_or("");
  read.inputs = read_prompts(fields, "input", EmbeddingRequest::kMaxInputs);
  check_inputs(fields, read.inputs);
  read.is_base64 = fields.one_of("encoding_format", {"float", "base64"}) == "base64";
  if (const auto dimensions = fields.integer("dimensions", 1, 1 << 20)) {
    read.dimensions = static_cast<std::uint64_t>(*dimensions);
  }
  read.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  read.cache_salt = fields.text("cache_salt", kMaxName).value_or("");
  read.priority =
      static_cast<std::int32_t>(fields.integer("priority", -1000000, 1000000).value_or(0));
  (void)fields.text("user", kMaxName);
  if (fields.has("truncate_prompt_tokens")) {
    fields.refuse_unsupported("truncate_prompt_tokens", "inputs are taken whole or refused");
  }
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

ApiError no_embeddings(std::string_view model, std::string_view why) {
  ApiError error;
  error.message = fmt::format("The model '{}' gives no embeddings: {}", model.substr(0, 200), why);
  error.param = "model";
  error.code = "unsupported_model";
  return error;
}

std::optional<ApiError> check_size(const EmbeddingRequest& request, std::uint64_t width) {
  if (request.dimensions && *request.dimensions != width) {
    return unsupported_field(
        "dimensions",
        fmt::format("expected {}, the model's own, or none: it is not made to be cut", width));
  }
  if (request.inputs.size() * width <= kMaxValues) return std::nullopt;
  return invalid_field("input", fmt::format("expected at most {} inputs to vectors of {} values, "
                                            "got {}",
                                            kMaxValues / width, width, request.inputs.size()));
}

}  // namespace paceline::api
