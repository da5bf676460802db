// One HTTP/1.x request from bytes, within limits. Knows no sockets. Pure but for Beast's parser,
// whose syntax rules it adds to: what could be read in two ways is refused.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/exchange.h"

namespace paceline::http {

struct RequestHead {
  std::string method;
  std::string target;
  Headers headers;
  bool is_http11 = false;
  bool keeps_alive = false;
  std::optional<std::uint64_t> content_length;  ///< none: no body, or a chunked one
  bool has_body = false;
};

/// Why bytes are no request that is served.
struct Refusal {
  int status = 0;
  std::string message;
};

/// Lifecycle: feed() until the head is there, limit_body(), feed() until it is complete; then one
/// made anew takes the next request. Thread-compatible.
class RequestParser final : private boost::beast::http::basic_parser<true> {
 public:
  enum class State { kHead, kBody, kComplete, kFailed };
  /// The longest line of a chunk's size, and the longest trailer, that is waited for.
  static constexpr std::size_t kMaxChunkLineBytes = 8192;

  explicit RequestParser(std::size_t max_header_bytes);

  /// Takes what it can from the front of `bytes` and returns how many; those left are to be given
  /// again, with more behind them. Stops once where the head is complete.
  std::size_t feed(std::string_view bytes);
  void limit_body(std::size_t max_bytes) { max_body_bytes_ = max_bytes; }

  bool has_begun() const { return got_some(); }  ///< more than an empty line has come
  State state() const { return state_; }
  const RequestHead& head() const { return head_; }
  const Refusal& refusal() const { return refusal_; }  ///< where it has failed
  std::size_t body_bytes() const { return body_.size(); }
  std::string take_body() { return std::move(body_); }

 private:
  using ErrorCode = boost::system::error_code;
  using Text = boost::beast::string_view;

  void on_request_impl(boost::beast::http::verb verb, Text method, Text target, int version,
                       ErrorCode& error) override;
  void on_response_impl(int code, Text reason, int version, ErrorCode& error) override;
  void on_field_impl(boost::beast::http::field field, Text name, Text value,
                     ErrorCode& error) override;
  void on_header_impl(ErrorCode& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode& error) override;
  std::size_t on_body_impl(Text bytes, ErrorCode& error) override;
  void on_chunk_header_impl(std::uint64_t size, Text extensions, ErrorCode& error) override;
  std::size_t on_chunk_body_impl(std::uint64_t left, Text bytes, ErrorCode& error) override;
  void on_finish_impl(ErrorCode& error) override;

  std::size_t advance(std::string_view bytes);
  void finish_head();
  void refuse(int status, std::string message);
  void refuse(const ErrorCode& error);
  void refuse_body(ErrorCode& error);

  State state_ = State::kHead;
  bool has_skipped_line_ = false;
  int version_ = 0;  ///< 10 or 11
  RequestHead head_;
  std::string body_;
  std::size_t max_body_bytes_ = 0;
  Refusal refusal_;
};

}  // namespace paceline::http
