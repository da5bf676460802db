#include "net/relay.h"

#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <utility>
#include <vector>

#include "net/relay_pipe.h"

namespace paceline::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

/// Numeric addresses and localhost only: a relay stands on the machine of the test.
Result<tcp::endpoint> address_of(const Endpoint& endpoint) {
  error_code error;
  const auto address =
      asio::ip::make_address(endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host, error);
  if (error) {
    return fail(ErrorCode::kInvalidArgument, "relay: '{}': expected a numeric address",
                endpoint.host);
  }
  return tcp::endpoint(address, endpoint.port);
}

class Session;

/// One direction: a socket read into a pipe, the pipe written to the other socket.
class Direction {
 public:
  Direction(asio::io_context& context, const RelayDirection& options, std::size_t buffer_bytes)
      : pipe_(options), timer_(context), buffer_bytes_(buffer_bytes) {}

  void start(const std::shared_ptr<Session>& session, tcp::socket& from, tcp::socket& to);
  void stall() { pipe_.stall(); }
  void stop() { timer_.cancel(); }

 private:
  void read();
  void on_read(const error_code& error, std::size_t count);
  void schedule();
  void write_due();

  RelayPipe pipe_;
  asio::steady_timer timer_;
  const std::size_t buffer_bytes_;
  std::weak_ptr<Session> session_;
  tcp::socket* from_ = nullptr;
  tcp::socket* to_ = nullptr;
  std::array<std::byte, std::size_t{64} << 10> staging_;
  RelayPipe::Piece piece_;  ///< being written
  bool is_reading_ = false;
  bool has_read_end_ = false;  ///< reading again would say so again, at once
  bool is_writing_ = false;    ///< or waiting for what is due
};

/// One relayed connection. Network thread only.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<asio::io_context> context, tcp::socket near, const RelayOptions& options)
      : context_(std::move(context)),
        near_(std::move(near)),
        far_(*context_),
        forward_(*context_, options.forward, options.buffer_bytes),
        backward_(*context_, options.backward, options.buffer_bytes) {}

  void start(const tcp::endpoint& target) {
    far_.async_connect(target, [self = shared_from_this()](const error_code& error) {
      if (error) return self->close();
      error_code ignored;
      self->near_.set_option(tcp::no_delay(true), ignored);
      self->far_.set_option(tcp::no_delay(true), ignored);
      self->forward_.start(self, self->near_, self->far_);
      self->backward_.start(self, self->far_, self->near_);
    });
  }

  void close() {
    error_code ignored;
    near_.close(ignored);
    far_.close(ignored);
    forward_.stop();
    backward_.stop();
  }
  void stall() {
    forward_.stall();
    backward_.stall();
  }

 private:
  const std::shared_ptr<asio::io_context> context_;
  tcp::socket near_;
  tcp::socket far_;
  Direction forward_;
  Direction backward_;
};

void Direction::start(const std::shared_ptr<Session>& session, tcp::socket& from, tcp::socket& to) {
  session_ = session;
  from_ = &from;
  to_ = &to;
  read();
}

void Direction::read() {
  if (is_reading_ || has_read_end_ || !from_->is_open() || pipe_.held_bytes() >= buffer_bytes_)
    return;
  is_reading_ = true;
  from_->async_read_some(asio::buffer(staging_), [this, alive = session_.lock()](
                                                     const error_code& error, std::size_t count) {
    is_reading_ = false;
    on_read(error, count);
  });
}

void Direction::on_read(const error_code& error, std::size_t count) {
  if (!from_->is_open()) return;
  if (error == asio::error::eof) {
    has_read_end_ = true;
    pipe_.push_end(now());
    return schedule();
  }
  if (error) {
    if (const auto session = session_.lock()) session->close();
    return;
  }
  pipe_.push({staging_.begin(), staging_.begin() + static_cast<std::ptrdiff_t>(count)}, now());
  schedule();
  read();
}

/// Waits until the next piece is due, then writes it.
void Direction::schedule() {
  const auto due = pipe_.next_due();
  if (is_writing_ || !due || !to_->is_open()) return;
  is_writing_ = true;
  timer_.expires_at(*due);
  timer_.async_wait([this, alive = session_.lock()](const error_code& error) {
    if (!error && to_->is_open()) write_due();
  });
}

void Direction::write_due() {
  auto piece = pipe_.pop(now());
  if (!piece) {
    is_writing_ = false;
    return schedule();
  }
  piece_ = std::move(*piece);
  asio::async_write(*to_, asio::buffer(piece_.bytes),
                    [this, alive = session_.lock()](const error_code& error, std::size_t) {
                      if (error || piece_.is_cut) return alive->close();
                      error_code ignored;
                      if (piece_.is_end) to_->shutdown(tcp::socket::shutdown_send, ignored);
                      is_writing_ = false;
                      schedule();
                      read();
                    });
}

}  // namespace

/// Accepts and keeps the sessions. Network thread only.
class Relay::Loop final : public std::enable_shared_from_this<Loop> {
 public:
  Loop(std::shared_ptr<asio::io_context> context, tcp::acceptor acceptor,
       const tcp::endpoint& target, const RelayOptions& options)
      : context_(std::move(context)),
        acceptor_(std::move(acceptor)),
        target_(target),
        options_(options) {}

  void accept_next() {
    acceptor_.async_accept([self = shared_from_this()](const error_code& error, tcp::socket near) {
      if (!self->acceptor_.is_open()) return;
      if (!error && !self->options_.refuse) self->begin(std::move(near));
      self->accept_next();
    });
  }

  void for_each(const std::function<void(Session&)>& action) {
    for (const auto& weak : sessions_) {
      if (const auto session = weak.lock()) action(*session);
    }
  }

  void close() {
    error_code ignored;
    acceptor_.close(ignored);
    for_each([](Session& session) { session.close(); });
  }

 private:
  void begin(tcp::socket near) {
    std::erase_if(sessions_, [](const auto& old) { return old.expired(); });
    const auto session = std::make_shared<Session>(context_, std::move(near), options_);
    sessions_.push_back(session);
    session->start(target_);
  }

  const std::shared_ptr<asio::io_context> context_;
  tcp::acceptor acceptor_;
  const tcp::endpoint target_;
  const RelayOptions options_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

Result<std::unique_ptr<Relay>> Relay::start(NetworkThread& thread, RelayOptions options) {
  PACELINE_ASSIGN_OR_RETURN(const tcp::endpoint address, address_of(options.listen));
  PACELINE_ASSIGN_OR_RETURN(const tcp::endpoint target, address_of(options.target));
  error_code error;
  tcp::acceptor acceptor(*thread.context());
  acceptor.open(address.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(address, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail(ErrorCode::kUnavailable, "relay: {}: {}", options.listen.to_string(),
                error.message());
  }
  const Endpoint bound{options.listen.host, acceptor.local_endpoint(error).port()};
  auto loop = std::make_shared<Loop>(thread.context(), std::move(acceptor), target, options);
  thread.run([&loop] { loop->accept_next(); });
  return std::unique_ptr<Relay>(new Relay(thread, std::move(loop), bound));
}

Relay::Relay(NetworkThread& thread, std::shared_ptr<Loop> loop, Endpoint endpoint)
    : thread_(thread), loop_(std::move(loop)), endpoint_(std::move(endpoint)) {}

Relay::~Relay() {
  thread_.run([this] { loop_->close(); });
}

void Relay::cut() {
  thread_.run([this] { loop_->for_each([](Session& session) { session.close(); }); });
}

void Relay::stall() {
  thread_.run([this] { loop_->for_each([](Session& session) { session.stall(); }); });
}

}  // namespace paceline::net
