#include "http/client.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <exception>
#include <utility>

namespace paceline::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::use_awaitable;

namespace {

constexpr auto kLookTime = std::chrono::milliseconds(50);  ///< at ClientOptions::stop

bool is_host(std::string_view host) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:_";
  return !host.empty() && host.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_port(std::string_view port) {
  return !port.empty() && port.size() <= 5 &&
         port.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

/// One request on its way. Lives as long as the io_context runs.
struct Client::Talk {
  const Address& address;
  const ClientOptions& options;
  const ClientRequest& request;
  const std::function<bool(std::string_view)>& on_bytes;
  Response response = {};
  bool is_cancelled = false;

  beast::http::request<beast::http::string_body> head() const {
    beast::http::request<beast::http::string_body> out;
    out.version(11);
    out.method_string(request.method);
    out.target(address.prefix + request.path);
    const bool is_v6 = address.host.find(':') != std::string::npos;
    out.set("Host", (is_v6 ? "[" + address.host + "]" : address.host) + ":" + address.port);
    out.set("Connection", "close");
    if (!options.api_key.empty()) out.set("Authorization", "Bearer " + options.api_key);
    if (!request.body.empty()) out.set("Content-Type", request.content_type);
    out.body() = request.body;
    out.prepare_payload();
    return out;
  }

  asio::awaitable<void> connect(beast::tcp_stream& stream) {
    asio::ip::tcp::resolver resolver(stream.get_executor());
    const auto found = co_await resolver.async_resolve(address.host, address.port, use_awaitable);
    stream.expires_after(options.silence);
    co_await stream.async_connect(found, use_awaitable);
  }

  template <typename Stream>
  asio::awaitable<void> talk(Stream& stream) {
    auto& socket = beast::get_lowest_layer(stream);
    const auto out = head();
    socket.expires_after(options.silence);
    co_await beast::http::async_write(stream, out, use_awaitable);
    beast::flat_buffer buffer;
    beast::http::response_parser<beast::http::string_body> parser;
    parser.body_limit(options.max_body_bytes);
    socket.expires_after(options.silence);
    co_await beast::http::async_read_header(stream, buffer, parser, use_awaitable);
    response.status = static_cast<int>(parser.get().result_int());
    response.content_type = std::string(parser.get()["Content-Type"]);
    const bool is_streamed = on_bytes && response.status == 200;
    while (!parser.is_done()) {
      socket.expires_after(options.silence);
      co_await beast::http::async_read_some(stream, buffer, parser, use_awaitable);
      std::string& body = parser.get().body();
      if (!is_streamed || body.empty()) continue;
      is_cancelled = !on_bytes(body);
      if (is_cancelled) co_return;
      body.clear();
    }
    response.body = std::move(parser.get().body());
  }

  asio::awaitable<void> run_plain() {
    beast::tcp_stream stream(co_await asio::this_coro::executor);
    co_await connect(stream);
    co_await talk(stream);
  }

  asio::awaitable<void> run_tls() {
    asio::ssl::context context(asio::ssl::context::tls_client);
    context.set_default_verify_paths();
    if (!options.certificates.empty()) context.load_verify_file(options.certificates.string());
    beast::ssl_stream<beast::tcp_stream> stream(co_await asio::this_coro::executor, context);
    stream.set_verify_mode(asio::ssl::verify_peer);
    stream.set_verify_callback(asio::ssl::host_name_verification(address.host));
    SSL_set_tlsext_host_name(stream.native_handle(), address.host.c_str());
    co_await connect(beast::get_lowest_layer(stream));
    co_await stream.async_handshake(asio::ssl::stream_base::client, use_awaitable);
    co_await talk(stream);
  }
};

Result<Client> Client::make(std::string_view base_url, ClientOptions options) {
  const auto refuse = [base_url] {
    return fail(ErrorCode::kInvalidArgument, "'{}': expected http://HOST:PORT/v1 or https://...",
                base_url.substr(0, 200));
  };
  Address address;
  address.is_tls = base_url.starts_with("https://");
  if (!address.is_tls && !base_url.starts_with("http://")) return refuse();
  std::string_view rest = base_url.substr(address.is_tls ? 8 : 7);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  address.prefix = rest.substr(slash);
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  rest = rest.substr(0, slash);
  address.port = address.is_tls ? "443" : "80";
  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return refuse();
  if (const std::size_t colon = rest.find(':', bracket); colon != std::string_view::npos) {
    address.port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  address.host = bracket == 0 ? rest : rest.substr(1, bracket - 1);
  if (!is_host(address.host) || !is_port(address.port)) return refuse();
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7F; };
  if (!std::all_of(address.prefix.begin(), address.prefix.end(), is_plain)) return refuse();
  return Client(std::move(address), std::move(options));
}

Result<Response> Client::ask(const ClientRequest& request,
                             const std::function<bool(std::string_view)>& on_bytes) {
  Talk talk{address_, options_, request, on_bytes};
  asio::io_context loop(1);
  std::exception_ptr failure;
  asio::co_spawn(loop, address_.is_tls ? talk.run_tls() : talk.run_plain(),
                 [&failure](std::exception_ptr thrown) { failure = std::move(thrown); });
  while (!loop.stopped() && !talk.is_cancelled) {
    loop.run_for(options_.stop == nullptr ? options_.silence : kLookTime);
    if (options_.stop != nullptr && options_.stop->load()) talk.is_cancelled = true;
  }
  if (talk.is_cancelled) return fail(ErrorCode::kCancelled, "{}: was let go", name());
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    const bool is_late = error.code() == beast::error::timeout;
    return fail(is_late ? ErrorCode::kDeadlineExceeded : ErrorCode::kUnavailable, "{}: {}", name(),
                is_late ? "no answer" : error.code().message());
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "{}: {}", name(), error.what());
  }
  return std::move(talk.response);
}

}  // namespace paceline::http
