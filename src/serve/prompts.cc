#include "serve/prompts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/responses.h"

namespace paceline::serve {
namespace {

using api::Json;

/// A render may fail by what the messages are: the client's to mend.
api::ApiError about_prompt(const Error& error, const char* param) {
  api::ApiError shown = api::from_error(error);
  shown.param = param;
  return shown;
}

std::string_view without_end_space(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

Result<std::string> render(const ChatFormat& format, const api::ChatPrompt& prompt) {
  Json variables = prompt.variables;
  // There in any case, as templates are used to.
  variables["tools"] = prompt.tools.empty() ? Json() : prompt.tools;
  if (!variables.contains("documents")) variables["documents"] = nullptr;
  text::ChatTemplateOptions options;
  options.add_generation_prompt = prompt.add_generation_prompt;
  options.bos_token = format.bos_token;
  options.eos_token = format.eos_token;
  options.extra_variables_json = api::dump(variables);
  return format.chat_template.render_messages(prompt.messages, options);
}

/// Cuts what the template put after the last message's text.
Status cut_after_last_message(const api::ChatPrompt& prompt, std::string& text) {
  const std::string content = prompt.messages.back()["content"];
  const std::string_view shown = without_end_space(content);
  const std::size_t at = text.rfind(shown);
  if (at == std::string::npos || shown.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the template does not show the last message as it is, so it cannot be continued");
  }
  text.resize(at + shown.size());
  return {};
}

}  // namespace

api::Parsed<ChatTokens> chat_tokens(const ServedModel& model, const api::ChatPrompt& prompt) {
  const ChatFormat* format = model.chat();
  if (format == nullptr || model.tokenizer() == nullptr) {
    return tl::unexpected(
        api::unsupported_field("messages", "the model has no chat template; use /v1/completions"));
  }
  auto text = render(*format, prompt);
  if (!text) return tl::unexpected(about_prompt(text.error(), "messages"));
  if (prompt.continue_final_message) {
    if (const auto cut = cut_after_last_message(prompt, *text); !cut) {
      return tl::unexpected(about_prompt(cut.error(), "continue_final_message"));
    }
  }
  auto ids = model.tokenizer()->encode(*text, prompt.add_special_tokens);
  if (!ids) return tl::unexpected(about_prompt(ids.error(), "messages"));
  return ChatTokens{*std::move(ids), without_end_space(*text).ends_with("<think>")};
}

api::Parsed<api::TokenIds> prompt_tokens(const ServedModel& model, const api::PromptText& prompt,
                                         bool add_special_tokens, const char* field) {
  if (const auto* ids = std::get_if<api::TokenIds>(&prompt)) {
    const auto size = static_cast<std::int64_t>(model.facts().vocabulary_size);
    const auto outside =
        std::find_if(ids->begin(), ids->end(), [size](auto id) { return id < 0 || id >= size; });
    if (outside == ids->end()) return *ids;
    return tl::unexpected(api::invalid_field(
        field, fmt::format("token {} is outside the vocabulary of {}", *outside, size)));
  }
  if (model.tokenizer() == nullptr) {
    return tl::unexpected(
        api::unsupported_field(field, "the model has no tokenizer; give token ids"));
  }
  auto ids = model.tokenizer()->encode(std::get<std::string>(prompt), add_special_tokens);
  if (!ids) return tl::unexpected(about_prompt(ids.error(), field));
  if (ids->empty()) return tl::unexpected(api::invalid_field(field, "is empty"));
  return *std::move(ids);
}

std::string prompt_text(const ServedModel& model, const api::PromptText& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  if (model.tokenizer() == nullptr) return {};
  return model.tokenizer()->decode(std::get<api::TokenIds>(prompt), false).value_or("");
}

std::optional<api::ApiError> fit_context(const ServedModel& model, std::size_t prompt_tokens,
                                         const api::GenerationFields& asked,
                                         std::uint32_t& max_tokens) {
  const std::size_t context = model.facts().context_tokens;
  if (prompt_tokens == 0) return api::invalid_field("messages", "give an empty prompt");
  if (prompt_tokens >= context) return api::context_exceeded(prompt_tokens, context);
  if (asked.max_tokens.value_or(0) > context - prompt_tokens) {
    return api::limit_exceeds_context(prompt_tokens, asked.limit_field, *asked.max_tokens, context);
  }
  max_tokens = asked.max_tokens.value_or(static_cast<std::uint32_t>(context - prompt_tokens));
  return std::nullopt;
}

}  // namespace paceline::serve
