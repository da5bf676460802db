// The body of POST /v1/responses. Stateless: nothing is stored, so nothing earlier can be named.
#pragma once

#include <string_view>

#include "api/chat_request.h"

namespace paceline::api {

struct ResponseRequest {
  ChatRequest chat;  ///< what it asks for, in a chat's words
  Json shown;        ///< its fields as the answer repeats them
};

/// 400 with the field at fault, by its name in this schema.
Parsed<ResponseRequest> parse_response_request(std::string_view body);

}  // namespace paceline::api
