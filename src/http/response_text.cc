#include "http/response_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/status.hpp>
#include <cstddef>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "http/ascii.h"

namespace paceline::http {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

bool is_ours(std::string_view name) {
  constexpr std::array<std::string_view, 6> kOurs = {
      "content-length", "transfer-encoding", "connection", "date", "x-request-id", "content-type"};
  return std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end();
}

/// Names and values come from our handlers, but values may hold what a client sent.
bool is_safe(std::string_view name, std::string_view value) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_printable) &&
         name.find(':') == std::string_view::npos &&
         std::none_of(value.begin(), value.end(), is_control);
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  if (is_safe(name, value)) fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
}

}  // namespace

Response error_response(int status, std::string_view message, std::string_view code) {
  nlohmann::json error = {{"message", message}, {"type", type_of(status)}, {"param", nullptr}};
  error["code"] = code.empty() ? nlohmann::json() : nlohmann::json(code);
  Response response;
  response.status = status;
  response.body = nlohmann::json{{"error", std::move(error)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

bool may_have_body(int status) { return status != 204 && status != 304; }

std::string head_text(const Response& response, const HeadFacts& facts) {
  PACELINE_CHECK(response.status >= 200 && response.status <= 599);
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(response.status)));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                std::string_view(reason.data(), reason.size()));
  if (may_have_body(response.status)) {
    append_header(out, "content-type", response.content_type);
    if (facts.is_chunked) {
      append_header(out, "transfer-encoding", "chunked");
    } else {
      append_header(out, "content-length", std::to_string(response.body.size()));
    }
  }
  append_header(out, "date", facts.date);
  append_header(out, "x-request-id", facts.request_id);
  append_header(out, "x-content-type-options", "nosniff");
  if (!facts.keeps_alive) append_header(out, "connection", "close");
  if (facts.keeps_alive && !facts.is_http11) append_header(out, "connection", "keep-alive");
  for (const auto& [name, value] : response.headers) {
    const std::string lower = lower_case(name);
    if (!is_ours(lower)) append_header(out, lower, value);
  }
  out += "\r\n";
  return out;
}

std::string http_date(long long unix_seconds) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = unix_seconds;
  std::tm date{};
  ::gmtime_r(&seconds, &date);  // not strftime: its names depend on the locale
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(date.tm_wday)], date.tm_mday,
                     kMonths[static_cast<std::size_t>(date.tm_mon)], date.tm_year + 1900,
                     date.tm_hour, date.tm_min, date.tm_sec);
}

void append_chunk(std::string& out, std::string_view bytes) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

}  // namespace paceline::http
