// The messages of a chat request, checked and brought into the form that templates expect.
#pragma once

#include "api/fields.h"

namespace paceline::api {

/// The field "messages"; chat_request.h says what becomes of it.
Json read_messages(Fields& fields);

}  // namespace paceline::api
