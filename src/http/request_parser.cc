#include "http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "http/ascii.h"

namespace paceline::http {

namespace beast_http = boost::beast::http;

namespace {

/// Of these a second one is not joined to the first, but refused: which of the two counts is where
/// servers and proxies differ.
bool is_single(std::string_view name) {
  return name == "host" || name == "content-type" || name == "authorization" || name == "origin" ||
         name == "transfer-encoding" || name == "expect";
}

}  // namespace

RequestParser::RequestParser(std::size_t max_header_bytes) {
  header_limit(static_cast<std::uint32_t>(max_header_bytes));
  body_limit(boost::none);  // ours depends on the route
}

std::size_t RequestParser::feed(std::string_view bytes) {
  std::size_t taken = 0;
  // Some clients send an empty line behind a body (RFC 9112, 2.2).
  if (state_ == State::kHead && !got_some() && !has_skipped_line_) {
    if (bytes == "\r") return 0;
    if (bytes.starts_with("\r\n")) {
      has_skipped_line_ = true;
      taken = 2;
    }
  }
  const State before = state_;
  while (taken < bytes.size() && state_ == before) {
    const std::size_t count = advance(bytes.substr(taken));
    taken += count;
    if (count == 0) break;
  }
  return taken;
}

/// Zero where more bytes are needed.
std::size_t RequestParser::advance(std::string_view bytes) {
  ErrorCode error;
  const std::size_t count = put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == beast_http::error::need_more) {
    if (state_ == State::kBody && bytes.size() - count > kMaxChunkLineBytes) {
      refuse(400, "body: the line of a chunk's size, or the trailer, is too long");
    }
    return count;
  }
  if (error) {
    refuse(error);
    return count;
  }
  if (state_ == State::kHead && is_header_done()) finish_head();
  if (state_ == State::kBody && is_done()) state_ = State::kComplete;
  return count;
}

void RequestParser::finish_head() {
  head_.is_http11 = version_ == 11;
  head_.keeps_alive = keep_alive();
  head_.has_body = !is_done();
  if (const auto length = content_length()) head_.content_length = *length;
  const auto coding = head_.headers.find("transfer-encoding");
  if (coding != head_.headers.end()) {
    // Beast takes other codings for no body at all: what follows would be read as a request.
    if (!head_.is_http11) return refuse(400, "Transfer-Encoding: not in HTTP/1.0");
    if (!equal_ignoring_case(coding->second, "chunked")) {
      return refuse(501, "Transfer-Encoding: only chunked is understood");
    }
  }
  state_ = head_.has_body ? State::kBody : State::kComplete;
}

void RequestParser::refuse(int status, std::string message) {
  state_ = State::kFailed;
  refusal_ = {status, std::move(message)};
}

void RequestParser::refuse(const ErrorCode& error) {
  if (state_ == State::kFailed) return;  // by ourselves, with a better message
  if (error == beast_http::error::header_limit) {
    const bool is_line = head_.method.empty();
    return refuse(is_line ? 414 : 431, is_line ? "request line: too long" : "headers: too long");
  }
  if (error == beast_http::error::bad_version) {
    return refuse(505, "request line: expected HTTP/1.1 or HTTP/1.0");
  }
  refuse(400, fmt::format("not an HTTP request: {}", error.message()));
}

void RequestParser::refuse_body(ErrorCode& error) {
  refuse(413, fmt::format("body: at most {} bytes", max_body_bytes_));
  error = beast_http::error::body_limit;
}

void RequestParser::on_request_impl(beast_http::verb, Text method, Text target, int version,
                                    ErrorCode&) {
  head_.method.assign(method.data(), method.size());
  head_.target.assign(target.data(), target.size());
  version_ = version;
}

void RequestParser::on_response_impl(int, Text, int, ErrorCode&) {}

void RequestParser::on_field_impl(beast_http::field, Text name, Text value, ErrorCode& error) {
  if (state_ != State::kHead) return;  // a trailer: must not change what was decided by the head
  const std::string key = lower_case(std::string_view(name.data(), name.size()));
  const auto [place, is_new] = head_.headers.try_emplace(key, value.data(), value.size());
  if (is_new) return;
  if (is_single(key)) {
    refuse(400, fmt::format("{}: expected once", key));
    error = beast_http::error::bad_field;
    return;
  }
  place->second.append(", ").append(value.data(), value.size());
}

void RequestParser::on_header_impl(ErrorCode&) {}

void RequestParser::on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode&) {
  constexpr std::uint64_t kFirstBytes = std::uint64_t{1} << 20;  // the rest as it really comes
  if (length) body_.reserve(static_cast<std::size_t>(std::min(*length, kFirstBytes)));
}

std::size_t RequestParser::on_body_impl(Text bytes, ErrorCode& error) {
  if (bytes.size() > max_body_bytes_ - std::min(body_.size(), max_body_bytes_)) {
    refuse_body(error);
    return 0;
  }
  body_.append(bytes.data(), bytes.size());
  return bytes.size();
}

void RequestParser::on_chunk_header_impl(std::uint64_t size, Text, ErrorCode& error) {
  if (size > max_body_bytes_ - std::min(body_.size(), max_body_bytes_)) refuse_body(error);
}

std::size_t RequestParser::on_chunk_body_impl(std::uint64_t, Text bytes, ErrorCode& error) {
  return on_body_impl(bytes, error);
}

void RequestParser::on_finish_impl(ErrorCode&) {}

}  // namespace paceline::http
