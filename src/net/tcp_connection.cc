#include "net/tcp_connection.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <netinet/tcp.h>
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace paceline::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string peer_of(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  return Endpoint{endpoint.address().to_string(), endpoint.port()}.to_string();
}

void set_options(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  // A dead machine is noticed in 60 + 3 * 10 s even where nothing is sent.
  const int idle_s = 60;
  const int interval_s = 10;
  const int probes = 3;
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

TimePoint now() { return std::chrono::steady_clock::now(); }

long long milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

TcpConnection::TcpConnection(std::shared_ptr<asio::io_context> context, tcp::socket socket,
                             const TcpOptions& options, Side side)
    : context_(std::move(context)),
      options_(options),
      peer_(peer_of(socket)),
      socket_(std::move(socket)),
      timer_(*context_),
      decoder_(options.limits, options.first_frame),
      last_read_(now()),
      last_written_(last_read_) {
  set_options(socket_);
  if (side == Side::kAccepted) first_frame_at_ = last_read_ + options_.first_frame_timeout;
}

void TcpConnection::start(std::shared_ptr<ConnectionHandler> handler) {
  handler_ = std::move(handler);
  if (!socket_.is_open()) return lose(Error(ErrorCode::kCancelled, "closed before it began"));
  arm_timer();
  read_next();
}

Status TcpConnection::send(wire::Frame frame) {
  PACELINE_ASSIGN_OR_RETURN(auto encoded, wire::encode(std::move(frame), options_.limits));
  const std::lock_guard lock(mutex_);
  if (end_) {
    return fail(ErrorCode::kUnavailable, "connection to {} is closed: {}", peer_, end_->message());
  }
  const std::size_t room =
      options_.send_queue_bytes - std::min(queued_bytes_, options_.send_queue_bytes);
  if (queued_bytes_ > 0 && encoded.size_bytes > room) {
    return fail(ErrorCode::kResourceExhausted,
                "connection to {}: {} bytes wait to be sent, no room for {} more (at most {})",
                peer_, queued_bytes_, encoded.size_bytes, options_.send_queue_bytes);
  }
  queued_bytes_ += encoded.size_bytes;
  queue_.push_back(std::move(encoded));
  if (is_writing_) return {};
  is_writing_ = true;
  asio::post(*context_, [self = shared_from_this()] { self->write_next(); });
  return {};
}

void TcpConnection::close(Error reason) {
  {
    const std::lock_guard lock(mutex_);
    if (end_) return;
    end_ = reason;
  }
  asio::post(*context_, [self = shared_from_this(), reason = std::move(reason)] {
    self->begin_linger(reason);
  });
}

void TcpConnection::set_silence_limit(Duration limit) {
  asio::post(*context_, [self = shared_from_this(), limit] {
    self->silence_limit_ = limit;
    self->arm_timer();
  });
}

bool TcpConnection::has_ended() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

// Reading.

void TcpConnection::read_next() {
  if (!socket_.is_open()) return;
  direct_ = is_lingering_ ? std::span<std::byte>() : decoder_.next_span();
  const std::array<asio::mutable_buffer, 2> buffers = {asio::buffer(direct_.data(), direct_.size()),
                                                       asio::buffer(staging_)};
  socket_.async_read_some(buffers,
                          [self = shared_from_this()](const error_code& error, std::size_t count) {
                            self->on_read(error, count);
                          });
}

void TcpConnection::on_read(const error_code& error, std::size_t count) {
  if (is_lingering_) {
    if (error) return close_socket();
    return read_next();
  }
  if (error) {
    const char* where = decoder_.is_mid_frame() ? " in the middle of a frame" : "";
    const std::string what =
        error == asio::error::eof ? "the peer closed the connection" : error.message();
    return lose(Error(ErrorCode::kUnavailable, what + where));
  }
  last_read_ = now();
  if (const Status status = take(count); !status) refuse(status.error());
  arm_timer();
  read_next();
}

/// The first bytes went straight into the decoder's buffer, the rest into staging_.
Status TcpConnection::take(std::size_t count) {
  const std::size_t direct = std::min(count, direct_.size());
  PACELINE_ASSIGN_OR_RETURN(auto frame, decoder_.advance(direct));
  if (frame && !deliver(std::move(*frame))) return {};
  std::vector<wire::Frame> frames;
  Status status = decoder_.feed(std::span(staging_).first(count - direct), frames);
  for (wire::Frame& complete : frames) {
    if (!deliver(std::move(complete))) return {};
  }
  return status;
}

/// False once the connection has ended, maybe by the handler itself.
bool TcpConnection::deliver(wire::Frame frame) {
  if (has_ended()) return false;
  first_frame_at_.reset();
  const std::shared_ptr<ConnectionHandler> handler = handler_;
  handler->on_frame(std::move(frame));
  return !has_ended();
}

/// Ends the connection for what the peer sent, and says so to it.
void TcpConnection::refuse(const Error& error) {
  if (const Status sent = send({{}, wire::Fault{error.code(), error.message()}, {}}); !sent) {
    spdlog::debug("connection {}: {}", peer_, sent.error().message());
  }
  close(error.with_context("refused"));
}

// Writing.

void TcpConnection::write_next() {
  batch_.clear();
  buffers_.clear();
  {
    const std::lock_guard lock(mutex_);
    while (!queue_.empty() && batch_.size() < kBatchFrames) {
      batch_.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    if (batch_.empty()) is_writing_ = false;
  }
  if (batch_.empty()) {
    if (is_lingering_) finish_sending();
    return;
  }
  for (const wire::EncodedFrame& frame : batch_) {
    buffers_.emplace_back(frame.head.data(), frame.head.size());
    for (const wire::SharedBytes& part : frame.payload) {
      if (part.size() > 0) buffers_.emplace_back(part.bytes().data(), part.size());
    }
  }
  last_written_ = now();
  write_rest();
  arm_timer();
}

void TcpConnection::write_rest() {
  if (!socket_.is_open()) return;
  socket_.async_write_some(buffers_,
                           [self = shared_from_this()](const error_code& error, std::size_t count) {
                             self->on_written(error, count);
                           });
}

void TcpConnection::on_written(const error_code& error, std::size_t count) {
  if (!socket_.is_open()) return;
  if (error) return lose(Error(ErrorCode::kUnavailable, "sending: " + error.message()));
  last_written_ = now();
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ -= count;
  }
  std::size_t passed = 0;
  while (passed < buffers_.size() && count >= buffers_[passed].size()) {
    count -= buffers_[passed].size();
    ++passed;
  }
  buffers_.erase(buffers_.begin(), buffers_.begin() + static_cast<std::ptrdiff_t>(passed));
  if (buffers_.empty()) return write_next();
  buffers_.front() += count;
  write_rest();
}

// Ending.

void TcpConnection::abort(const Error& reason) { lose(reason); }

/// After close(): sends what is queued, then waits for the peer to close too.
void TcpConnection::begin_linger(const Error& reason) {
  notify_closed(reason);
  if (!socket_.is_open()) return;
  is_lingering_ = true;
  linger_at_ = now() + options_.linger_timeout;
  bool is_writing = false;
  {
    const std::lock_guard lock(mutex_);
    is_writing = is_writing_;
  }
  if (!is_writing) finish_sending();
  arm_timer();
}

void TcpConnection::finish_sending() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) close_socket();
}

/// The link failed, or waiting is of no use: ends at once.
void TcpConnection::lose(Error reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = reason;
    reason = *end_;
  }
  notify_closed(reason);
  close_socket();
}

void TcpConnection::notify_closed(const Error& reason) {
  const std::shared_ptr<ConnectionHandler> handler = std::exchange(handler_, nullptr);
  if (!handler) return;
  spdlog::info("connection {}: closed: {}", peer_, reason.message());
  handler->on_closed(reason);
}

void TcpConnection::close_socket() {
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  const std::lock_guard lock(mutex_);
  queue_.clear();
  queued_bytes_ = 0;
}

std::optional<TcpConnection::Overdue> TcpConnection::next_overdue() const {
  if (is_lingering_) return Overdue{*linger_at_, "linger", options_.linger_timeout};
  std::optional<Overdue> next;
  const auto consider = [&next](const Overdue& other) {
    if (!next || other.at < next->at) next = other;
  };
  if (first_frame_at_) {
    consider({*first_frame_at_, "no complete first frame", options_.first_frame_timeout});
  }
  if (decoder_.is_mid_frame()) {
    consider({last_read_ + options_.stall_timeout, "no byte in the middle of a frame",
              options_.stall_timeout});
  }
  if (silence_limit_) consider({last_read_ + *silence_limit_, "silent", *silence_limit_});
  if (!buffers_.empty()) {
    consider({last_written_ + options_.stall_timeout, "the peer takes no bytes",
              options_.stall_timeout});
  }
  return next;
}

/// Cheap where the timer is already set for an earlier time: it then looks again.
void TcpConnection::arm_timer() {
  const auto overdue = next_overdue();
  if (!overdue || !socket_.is_open()) return;
  if (timer_at_ && *timer_at_ <= overdue->at) return;
  timer_at_ = overdue->at;
  timer_.expires_at(overdue->at);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error) self->on_timer();
  });
}

void TcpConnection::on_timer() {
  timer_at_.reset();
  const auto overdue = next_overdue();
  if (!overdue || !socket_.is_open()) return;
  if (overdue->at > now()) return arm_timer();
  if (is_lingering_) return close_socket();
  lose(Error(ErrorCode::kDeadlineExceeded,
             fmt::format("{} for {} ms", overdue->what, milliseconds(overdue->limit))));
}

}  // namespace paceline::net
