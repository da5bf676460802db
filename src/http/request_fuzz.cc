// libFuzzer target: any bytes, in pieces of any size, give requests that are admitted or refused by
// an answer that is itself well formed, and the same ones whatever the pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "http/admission.h"
#include "http/request_parser.h"
#include "http/response_text.h"
#include "http/router.h"

namespace {

using paceline::http::Admission;
using paceline::http::Exchange;
using paceline::http::RequestParser;
using State = RequestParser::State;

constexpr std::size_t kMaxHeaderBytes = 2048;
constexpr std::size_t kMaxBodyBytes = 512;

void check(bool condition) {
  if (!condition) std::abort();
}

const paceline::http::Router& router() {
  static const paceline::http::Router instance = [] {
    const paceline::http::Handler nothing = [](const std::shared_ptr<Exchange>&) {};
    paceline::http::Router routes;
    routes.add("GET", "/m/{name...}", nothing);
    routes.add("POST", "/f/{id}/c", nothing);
    routes.add("POST", "/u", nothing, {.content_type = ""});
    return routes;
  }();
  return instance;
}

/// A head of ours has one empty line, at its end, whatever the client sent.
void check_answer(const paceline::http::Response& response,
                  const paceline::http::Headers& headers) {
  paceline::http::Response whole = response;
  whole.headers.insert(headers.begin(), headers.end());
  const std::string text = paceline::http::head_text(whole, {.request_id = "id", .date = "now"});
  check(text.find("\r\n\r\n") == text.size() - 4);
  check(std::count(text.begin(), text.end(), '\n') == std::count(text.begin(), text.end(), '\r'));
}

std::string admitted(const RequestParser& parser) {
  static const paceline::http::HostRules hosts(
      {.address = "127.0.0.1", .cors_origins = {"http://c"}});
  const Admission admission = admit(parser.head(), {router(), hosts, nullptr, kMaxBodyBytes});
  check((admission.route == nullptr) == admission.answer.has_value());
  check(!admission.request.id.empty());
  if (admission.answer) check_answer(*admission.answer, admission.headers);
  return admission.route ? admission.route->pattern : std::to_string(admission.answer->status);
}

/// What became of the bytes, as text to compare: empty where the request is not whole.
std::string run(std::string_view bytes, std::size_t piece) {
  std::string outcome;
  std::string buffer;
  RequestParser parser(kMaxHeaderBytes);
  while (!bytes.empty() && parser.state() != State::kFailed && parser.state() != State::kComplete) {
    const std::size_t count = std::min(piece, bytes.size());
    buffer += bytes.substr(0, count);
    bytes.remove_prefix(count);
    const State before = parser.state();
    buffer.erase(0, parser.feed(buffer));
    if (before == State::kHead && parser.state() != State::kHead &&
        parser.state() != State::kFailed) {
      outcome += admitted(parser) + " ";
      parser.limit_body(kMaxBodyBytes);
      if (parser.state() == State::kBody) buffer.erase(0, parser.feed(buffer));
    }
    check(buffer.size() <= piece + kMaxHeaderBytes + RequestParser::kMaxChunkLineBytes);
    check(parser.body_bytes() <= kMaxBodyBytes);
  }
  if (parser.state() == State::kFailed) {
    check(parser.refusal().status >= 400 && parser.refusal().status <= 505);
    return {};
  }
  if (parser.state() != State::kComplete) return {};
  return outcome + parser.head().method + " " + parser.take_body();
}

}  // namespace

// Byte 0 is the size of the pieces (0: all at once).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string whole = run(bytes, bytes.size());
  const std::string in_pieces = run(bytes, data[0] == 0 ? bytes.size() : data[0]);
  // Limits are looked at when bytes come, so only what is whole both times must be the same.
  if (!whole.empty() && !in_pieces.empty()) check(whole == in_pieces);
  return 0;
}
