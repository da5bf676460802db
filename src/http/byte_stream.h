// A connection's socket, plain or TLS, behind one face. Internal.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/error.h"

namespace boost::asio::ssl {
class context;
}

namespace paceline::http {

/// Network thread only. One read and one write at a time; both may be under way together. Callbacks
/// keep the stream alive and come after close() too, with an error.
class ByteStream {
 public:
  using ErrorCode = boost::system::error_code;
  using Done = std::function<void(const ErrorCode&, std::size_t)>;

  virtual ~ByteStream() = default;
  virtual void handshake(std::function<void(const ErrorCode&)> done) = 0;
  virtual void read_some(boost::asio::mutable_buffer buffer, Done done) = 0;
  virtual void write_some(boost::asio::const_buffer buffer, Done done) = 0;
  /// Tells the peer that nothing more comes. Of TLS only a clean end says so within the session:
  /// one that is not clean is seen as a truncated session.
  virtual void end_sending(bool is_clean) = 0;
  virtual void close() = 0;
};

std::shared_ptr<ByteStream> make_plain_stream(boost::asio::ip::tcp::socket socket);
std::shared_ptr<ByteStream> make_tls_stream(boost::asio::ip::tcp::socket socket,
                                            std::shared_ptr<boost::asio::ssl::context> context);

/// TLS 1.2 at least, for HTTP/1.1. Errors name the file.
Result<std::shared_ptr<boost::asio::ssl::context>> make_tls_context(
    const std::filesystem::path& certificate, const std::filesystem::path& key);

}  // namespace paceline::http
