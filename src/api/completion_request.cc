#include "api/completion_request.h"

#include <utility>

namespace paceline::api {
namespace {

constexpr std::size_t kMaxTokenIds = std::size_t{4} << 20;

void check_best_of(Fields& fields, std::uint32_t choices) {
  const auto best_of = fields.integer("best_of", 1, 20);
  if (!best_of) return;
  if (*best_of < choices) {
    fields.refuse("best_of", fmt::format("{} is less than n, {}", *best_of, choices));
  } else if (*best_of > choices) {
    fields.refuse_unsupported("best_of", "choosing among more answers than n is not offered");
  }
}

}  // namespace

Parsed<CompletionRequest> parse_completion_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  CompletionRequest read;
  read.prompts = read_prompts(fields, "prompt", CompletionRequest::kMaxAnswers);
  read.generation = read_generation_fields(fields);
  GenerationFields& generation = read.generation;
  if (!generation.max_tokens) {
    generation.max_tokens = std::max(CompletionRequest::kDefaultTokens, generation.min_tokens);
  }
  if (const auto top = fields.integer("logprobs", 0, sampling::SamplingSpec::kMaxLogprobs)) {
    generation.logprobs = static_cast<std::uint32_t>(*top);
  }
  read.echo = fields.boolean("echo").value_or(false);
  read.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  check_best_of(fields, generation.choices);
  if (generation.max_tokens == 0U && !read.echo) {
    fields.refuse("max_tokens", "expected an integer of at least 1 (0 is for echo), got 0");
  }
  if (read.prompts.size() * generation.choices > CompletionRequest::kMaxAnswers) {
    fields.refuse(
        "n", fmt::format("prompts times n: expected at most {}", CompletionRequest::kMaxAnswers));
  }
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

Parsed<TokenizeRequest> parse_tokenize_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  TokenizeRequest read;
  read.model = fields.text("model", 4096).value_or("");
  read.return_token_strings = fields.boolean("return_token_strs").value_or(false);
  if (fields.has("messages")) {
    read.chat = read_chat_prompt(fields);
    read.add_special_tokens = read.chat->add_special_tokens;
  } else {
    fields.require("prompt");
    read.text = fields.text("prompt").value_or("");
    read.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  }
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

Parsed<DetokenizeRequest> parse_detokenize_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  DetokenizeRequest read;
  read.model = fields.text("model", 4096).value_or("");
  fields.require("tokens");
  const Json* tokens = fields.array("tokens", kMaxTokenIds);
  if (tokens != nullptr && !tokens->empty()) {
    if (auto ids = token_ids(*tokens)) {
      read.tokens = *std::move(ids);
    } else {
      fields.refuse("tokens", "expected an array of token ids");
    }
  }
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

}  // namespace paceline::api
