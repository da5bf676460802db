// Answers as bytes, and those that the server itself makes. Pure.
#pragma once

#include <string>
#include <string_view>

#include "http/exchange.h"

namespace paceline::http {

/// {"error": {"message", "type", "param": null, "code"}}, the type by the status. An empty code is
/// null. Any bytes may be in the message: what is no UTF-8 is replaced.
Response error_response(int status, std::string_view message, std::string_view code = {});

struct HeadFacts {
  bool is_http11 = true;
  bool keeps_alive = true;
  bool is_chunked = false;  ///< else Content-Length says how long the response's body is
  std::string_view request_id{};
  std::string_view date{};  ///< of http_date()
};

/// Status line and headers with the empty line. Headers of the response that the server decides on
/// (length, coding, connection, date, id) or that could break out of their line are left out.
std::string head_text(const Response& response, const HeadFacts& facts);

/// Neither 204 nor 304 have one.
bool may_have_body(int status);

/// "Sun, 06 Nov 1994 08:49:37 GMT" for seconds since 1970.
std::string http_date(long long unix_seconds);

/// One chunk of a stream; `bytes` must not be empty, since an empty chunk is the end.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace paceline::http
