// From what a request says to token ids, by the model's tokenizer and template.
#pragma once

#include <string>

#include "api/completion_request.h"
#include "serve/served_model.h"

namespace paceline::serve {

struct ChatTokens {
  api::TokenIds ids;
  /// The template has opened the reasoning already, so the answer begins inside it.
  bool opens_reasoning = false;
};

/// 400 with the template's own message where it raises one, or where there is none.
api::Parsed<ChatTokens> chat_tokens(const ServedModel& model, const api::ChatPrompt& prompt);

/// 400, by the name of the request's field, where text meets a model without a tokenizer, or an id
/// is outside the vocabulary.
api::Parsed<api::TokenIds> prompt_tokens(const ServedModel& model, const api::PromptText& prompt,
                                         bool add_special_tokens, const char* field = "prompt");

/// What `echo` gives back.
std::string prompt_text(const ServedModel& model, const api::PromptText& prompt);

/// Holds prompt and answer against the context; sets max_tokens where it is not given.
std::optional<api::ApiError> fit_context(const ServedModel& model, std::size_t prompt_tokens,
                                         const api::GenerationFields& asked,
                                         std::uint32_t& max_tokens);

}  // namespace paceline::serve
