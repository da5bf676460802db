#include "serve/answer_form.h"

#include <string>
#include <utility>

#include "api/call_grammar.h"
#include "api/tool_choice.h"

namespace paceline::serve {
namespace {

/// The field that is to blame where the grammar of calls is none.
const char* field_of(const api::ChatRequest& request) {
  return request.must_call ? "tool_choice" : "tools";
}

api::Parsed<GrammarSpec> calls_of(const ServedModel& model, const api::ChatRequest& request,
                                  api::ToolFormat format) {
  api::CallForm form;
  form.format = format;
  form.names_first = api::names_calls_first(model.chat()->source);
  form.must_call = request.must_call;
  form.name = request.named_tool;
  form.is_parallel = request.parallel_tool_calls;
  form.other = request.generation.grammar;
  return api::call_grammar(form, request.prompt.tools, [&model](std::string_view text) {
    const auto id = model.tokenizer()->token_id(text);
    return id && model.tokenizer()->is_special(*id) ? id : std::nullopt;
  });
}

}  // namespace

std::optional<api::ApiError> settle_chat_form(ServedModel& model, const api::ChatRequest& request,
                                              api::ToolFormat format, bool opens_reasoning,
                                              api::GenerationFields& asked) {
  const bool has_calls = api::needs_call_grammar(request);
  // Text that may come before a call has room for reasoning.
  const bool begins_freely = has_calls && !request.must_call && !request.generation.grammar;
  if (has_calls) {
    auto grammar = calls_of(model, request, format);
    if (!grammar) return grammar.error();
    asked.grammar = api::AskedGrammar{*std::move(grammar), field_of(request)};
    asked.skip_special_tokens = false;  // a mark may be one
  }
  if (asked.grammar && opens_reasoning && !begins_freely) {
    return api::unsupported_field(asked.grammar->field,
                                  "is not offered where the template opens the reasoning; "
                                  "reasoning_effort none may close it");
  }
  return check_form(model, asked);
}

std::optional<api::ApiError> check_form(ServedModel& model, const api::GenerationFields& asked) {
  if (!asked.grammar) return std::nullopt;
  const auto status = model.check_grammar(asked.grammar->spec);
  if (status) return std::nullopt;
  return api::invalid_field(asked.grammar->field, status.error().message());
}

}  // namespace paceline::serve
