// One TCP connection. Internal to src/net: others use transport.h.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/tcp_options.h"
#include "net/transport.h"
#include "wire/codec.h"

namespace paceline::net {

/// What a transport ends when it is destroyed: a connection, a listener, a dial under way.
class Abortable {
 public:
  virtual ~Abortable() = default;
  /// On the network thread: ends at once. Does nothing where it is over already.
  virtual void abort(const Error& reason) = 0;
};

/// Lifecycle: constructed with a connected socket -> start(handler) -> frames -> end by close(),
/// the peer, a timeout or a refused frame -> for close(), queued bytes are sent and the peer's last
/// bytes read and discarded (closing with unread bytes resets the connection and can lose what was
/// sent). Public members of Connection are thread-safe, all else runs on the network thread.
class TcpConnection final : public Connection,
                            public Abortable,
                            public std::enable_shared_from_this<TcpConnection> {
 public:
  enum class Side { kDialled, kAccepted };

  TcpConnection(std::shared_ptr<boost::asio::io_context> context,
                boost::asio::ip::tcp::socket socket, const TcpOptions& options, Side side);

  void start(std::shared_ptr<ConnectionHandler> handler);
  void abort(const Error& reason) override;
  bool is_open() const { return socket_.is_open(); }

  Status send(wire::Frame frame) override;
  void close(Error reason) override;
  void set_silence_limit(Duration limit) override;
  const std::string& peer() const override { return peer_; }

 private:
  static constexpr std::size_t kStagingBytes = std::size_t{64} << 10;
  static constexpr std::size_t kBatchFrames = 32;

  void read_next();
  void on_read(const boost::system::error_code& error, std::size_t count);
  Status take(std::size_t count);
  bool deliver(wire::Frame frame);
  void refuse(const Error& error);

  void write_next();
  void write_rest();
  void on_written(const boost::system::error_code& error, std::size_t count);

  bool has_ended() const;
  void begin_linger(const Error& reason);
  void finish_sending();
  void lose(Error reason);
  void notify_closed(const Error& reason);
  void close_socket();

  /// When the connection ends unless something happens before, and what did not.
  struct Overdue {
    TimePoint at;
    const char* what;
    Duration limit;
  };
  std::optional<Overdue> next_overdue() const;
  void arm_timer();
  void on_timer();

  const std::shared_ptr<boost::asio::io_context>
      context_;  ///< before socket_ and timer_: outlives them
  const TcpOptions options_;
  std::string peer_;

  // Network thread only.
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<ConnectionHandler> handler_;
  wire::FrameDecoder decoder_;
  std::span<std::byte> direct_;  ///< of the decoder, in the read under way
  std::array<std::byte, kStagingBytes> staging_;
  std::vector<wire::EncodedFrame> batch_;           ///< being written
  std::vector<boost::asio::const_buffer> buffers_;  ///< what is left of the batch
  std::optional<TimePoint> timer_at_;
  std::optional<TimePoint> first_frame_at_;
  std::optional<TimePoint> linger_at_;
  std::optional<Duration> silence_limit_;
  TimePoint last_read_;
  TimePoint last_written_;
  bool is_lingering_ = false;
  bool is_send_shut_ = false;

  mutable std::mutex mutex_;
  std::deque<wire::EncodedFrame> queue_;
  std::size_t queued_bytes_ = 0;  ///< of queue_ and batch_
  bool is_writing_ = false;
  std::optional<Error> end_;  ///< the first reason
};

}  // namespace paceline::net
