// The input of POST /v1/responses: text or items, brought into the form that templates expect.
#pragma once

#include "api/fields.h"

namespace paceline::api {

/// The field "input" behind the "instructions": messages as ChatPrompt has them. What the model
/// thought and the functions that it called become parts of the assistant's message.
Json read_response_input(Fields& fields);

}  // namespace paceline::api
