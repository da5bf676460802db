// The messages of a chat request, checked and brought into the form that templates expect.
#pragma once

#include "api/fields.h"

namespace paceline::api {

/// The field "messages"; chat_request.h says what becomes of it.
Json read_messages(Fields& fields);

/// A function call's "arguments", as templates want them: an object, or the text where it is none.
Json read_call_arguments(Fields& function);

}  // namespace paceline::api
