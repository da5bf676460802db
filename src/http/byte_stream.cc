#include "http/byte_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class PlainStream final : public ByteStream, public std::enable_shared_from_this<PlainStream> {
 public:
  explicit PlainStream(tcp::socket socket) : socket_(std::move(socket)) {}

  void handshake(std::function<void(const ErrorCode&)> done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}); });
  }
  void read_some(asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer,
                            [self = shared_from_this(), done = std::move(done)](
                                const ErrorCode& error, std::size_t count) { done(error, count); });
  }
  void write_some(asio::const_buffer buffer, Done done) override {
    socket_.async_write_some(
        buffer, [self = shared_from_this(), done = std::move(done)](
                    const ErrorCode& error, std::size_t count) { done(error, count); });
  }
  void end_sending(bool) override {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
};

class TlsStream final : public ByteStream, public std::enable_shared_from_this<TlsStream> {
 public:
  TlsStream(tcp::socket socket, std::shared_ptr<asio::ssl::context> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  void handshake(std::function<void(const ErrorCode&)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [self = shared_from_this(),
                             done = std::move(done)](const ErrorCode& error) { done(error); });
  }
  void read_some(asio::mutable_buffer buffer, Done done) override {
    stream_.async_read_some(buffer,
                            [self = shared_from_this(), done = std::move(done)](
                                const ErrorCode& error, std::size_t count) { done(error, count); });
  }
  void write_some(asio::const_buffer buffer, Done done) override {
    stream_.async_write_some(
        buffer, [self = shared_from_this(), done = std::move(done)](
                    const ErrorCode& error, std::size_t count) { done(error, count); });
  }
  void end_sending(bool is_clean) override {
    if (!is_clean) return shut_socket();
    stream_.async_shutdown([self = shared_from_this()](const ErrorCode&) { self->shut_socket(); });
  }
  void close() override {
    ErrorCode ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  void shut_socket() {
    ErrorCode ignored;
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }

  const std::shared_ptr<asio::ssl::context> context_;  ///< before stream_: outlives it
  asio::ssl::stream<tcp::socket> stream_;
};

tl::unexpected<Error> refuse(const std::filesystem::path& path, const char* expected,
                             const boost::system::error_code& error) {
  ::ERR_clear_error();
  return fail(ErrorCode::kInvalidArgument, "{}: {} expected: {}", path.string(), expected,
              error.message());
}

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                    const unsigned char* offered, unsigned offered_bytes, void*) {
  constexpr std::string_view kOurs = "\x08http/1.1";
  const auto* ours = reinterpret_cast<const unsigned char*>(kOurs.data());
  unsigned char* found = nullptr;
  if (::SSL_select_next_proto(&found, chosen_bytes, ours, kOurs.size(), offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

std::shared_ptr<ByteStream> make_plain_stream(tcp::socket socket) {
  return std::make_shared<PlainStream>(std::move(socket));
}

std::shared_ptr<ByteStream> make_tls_stream(tcp::socket socket,
                                            std::shared_ptr<asio::ssl::context> context) {
  return std::make_shared<TlsStream>(std::move(socket), std::move(context));
}

Result<std::shared_ptr<asio::ssl::context>> make_tls_context(
    const std::filesystem::path& certificate, const std::filesystem::path& key) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  if (::SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1) {
    return fail(ErrorCode::kInternal, "TLS 1.2 is not to be had from the TLS library");
  }
  boost::system::error_code error;
  context->use_certificate_chain_file(certificate.string(), error);
  if (error) return refuse(certificate, "a certificate chain in PEM", error);
  context->use_private_key_file(key.string(), asio::ssl::context::pem, error);
  if (error) return refuse(key, "the certificate's private key in PEM, without a password", error);
  if (::SSL_CTX_check_private_key(native) != 1) {
    ::ERR_clear_error();
    return fail(ErrorCode::kInvalidArgument, "{}: this key does not belong to {}", key.string(),
                certificate.string());
  }
  ::SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  return context;
}

}  // namespace paceline::http
