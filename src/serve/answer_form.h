// The form that an answer must have, as the last stage is told of it.
#pragma once

#include <optional>

#include "api/answer_parser.h"
#include "api/chat_request.h"
#include "serve/served_model.h"

namespace paceline::serve {

/// Puts into `asked` the grammar of calls where the request's tools ask for one, and then looks
/// whether the model can be held to what is asked for. A refusal names the field.
std::optional<api::ApiError> settle_chat_form(ServedModel& model, const api::ChatRequest& request,
                                              api::ToolFormat format, bool opens_reasoning,
                                              api::GenerationFields& asked);

/// Whether the model can be held to it.
std::optional<api::ApiError> check_form(ServedModel& model, const api::GenerationFields& asked);

}  // namespace paceline::serve
