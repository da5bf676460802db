// An HTTP/1.1 client for commands that ask a server: one request, one connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "http/exchange.h"

namespace paceline::http {

struct ClientOptions {
  std::string api_key = {};                    ///< sent as a bearer token; empty: none
  std::filesystem::path certificates = {};     ///< PEM, to trust beside the system's
  Duration silence = std::chrono::minutes(2);  ///< without a byte: kDeadlineExceeded
  std::size_t max_body_bytes = std::size_t{1} << 30;
  /// Once it is true, what is under way ends within 50 ms with kCancelled; the server sees the
  /// connection closed. Must outlive the client.
  const std::atomic<bool>* stop = nullptr;
};

struct ClientRequest {
  std::string method = "GET";
  std::string path = {};  ///< behind the base URL's, with its query
  std::string content_type = "application/json";
  std::string body = {};
};

/// Blocks. Thread-compatible.
class Client {
 public:
  /// "http://HOST:PORT/v1" or https. kInvalidArgument where it is none.
  static Result<Client> make(std::string_view base_url, ClientOptions options);

  /// The answer, whatever its status. `on_bytes` gets the body of a 200 as it comes, which the
  /// response then does not have; false ends the request with kCancelled. Errors name the server.
  Result<Response> ask(const ClientRequest& request,
                       const std::function<bool(std::string_view)>& on_bytes = {});

 private:
  struct Address {
    bool is_tls = false;
    std::string host = {};
    std::string port = {};
    std::string prefix = {};
  };
  struct Talk;
  Client(Address address, ClientOptions options)
      : address_(std::move(address)), options_(std::move(options)) {}
  std::string name() const { return address_.host + ":" + address_.port; }

  Address address_;
  ClientOptions options_;
};

}  // namespace paceline::http
