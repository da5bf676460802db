#include "net/tcp_transport.h"

#include <spdlog/spdlog.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>
#include <vector>

#include "net/tcp_connection.h"

namespace paceline::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// localhost never goes to a resolver, so that is_loopback() can rely on it.
std::string resolver_host(const Endpoint& endpoint) {
  return endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
}

Error unavailable(const Endpoint& endpoint, const error_code& error) {
  return Error(ErrorCode::kUnavailable,
               fmt::format("{}: {}", endpoint.to_string(), error.message()));
}

}  // namespace

/// All that the transport must end when it is destroyed. Network thread only.
class TcpTransport::Registry {
 public:
  void add(const std::shared_ptr<Abortable>& item) {
    std::erase_if(items_, [](const auto& old) { return old.expired(); });
    items_.push_back(item);
    if (is_closed_) item->abort(reason());
  }
  void abort_all() {
    is_closed_ = true;
    for (const auto& item : std::exchange(items_, {})) {
      if (const auto alive = item.lock()) alive->abort(reason());
    }
  }

 private:
  static Error reason() { return Error(ErrorCode::kCancelled, "the transport was closed"); }
  std::vector<std::weak_ptr<Abortable>> items_;
  bool is_closed_ = false;
};

/// Accepts one connection after the other. Network thread only.
class TcpTransport::AcceptLoop final : public Abortable,
                                       public std::enable_shared_from_this<AcceptLoop> {
 public:
  AcceptLoop(std::shared_ptr<asio::io_context> context, tcp::acceptor acceptor,
             const TcpOptions& options, std::shared_ptr<Registry> registry, AcceptHandler on_accept)
      : context_(std::move(context)),
        acceptor_(std::move(acceptor)),
        retry_(*context_),
        options_(options),
        registry_(std::move(registry)),
        on_accept_(std::move(on_accept)) {}

  void accept_next() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(
        [self = shared_from_this()](const error_code& error, tcp::socket socket) {
          if (!self->acceptor_.is_open()) return;
          if (error) return self->retry_later(error);
          self->welcome(std::move(socket));
          self->accept_next();
        });
  }

  void abort(const Error&) override {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    on_accept_ = nullptr;
  }

 private:
  void welcome(tcp::socket socket) {
    std::erase_if(open_, [](const auto& old) {
      const auto connection = old.lock();
      return !connection || !connection->is_open();
    });
    if (open_.size() >= options_.max_connections) {
      spdlog::warn("a connection was refused: {} are open, at most {}", open_.size(),
                   options_.max_connections);
      return;
    }
    const auto connection = std::make_shared<TcpConnection>(context_, std::move(socket), options_,
                                                            TcpConnection::Side::kAccepted);
    const AcceptHandler on_accept = on_accept_;  // it may close the listener
    auto handler = on_accept(connection);
    if (!handler) return connection->abort(Error(ErrorCode::kCancelled, "refused"));
    open_.push_back(connection);
    registry_->add(connection);
    connection->start(std::move(handler));
  }

  /// E.g. out of file descriptors: others may be closed soon.
  void retry_later(const error_code& error) {
    spdlog::warn("accepting a connection failed: {}", error.message());
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([self = shared_from_this()](const error_code&) { self->accept_next(); });
  }

  const std::shared_ptr<asio::io_context> context_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  const TcpOptions options_;
  const std::shared_ptr<Registry> registry_;
  AcceptHandler on_accept_;
  std::vector<std::weak_ptr<TcpConnection>> open_;
};

class TcpTransport::TcpListener final : public Listener {
 public:
  TcpListener(NetworkThread& thread, std::shared_ptr<AcceptLoop> loop, Endpoint endpoint)
      : thread_(thread), loop_(std::move(loop)), endpoint_(std::move(endpoint)) {}
  ~TcpListener() override {
    thread_.run([this] { loop_->abort(Error(ErrorCode::kCancelled, "the listener was closed")); });
  }
  const Endpoint& endpoint() const override { return endpoint_; }

 private:
  NetworkThread& thread_;
  const std::shared_ptr<AcceptLoop> loop_;
  const Endpoint endpoint_;
};

/// One dial under way: resolve, connect, and a timer. Network thread only.
class TcpTransport::Dialler final : public Abortable, public std::enable_shared_from_this<Dialler> {
 public:
  Dialler(std::shared_ptr<asio::io_context> context, const TcpOptions& options,
          std::shared_ptr<Registry> registry, Endpoint endpoint, DialHandler done)
      : context_(std::move(context)),
        options_(options),
        registry_(std::move(registry)),
        endpoint_(std::move(endpoint)),
        done_(std::move(done)),
        resolver_(*context_),
        socket_(*context_),
        timer_(*context_) {}

  void start(Deadline deadline, std::shared_ptr<ConnectionHandler> handler) {
    handler_ = std::move(handler);
    timer_.expires_at(deadline.at());
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (error) return;
      self->abort(
          Error(ErrorCode::kDeadlineExceeded,
                fmt::format("{}: no connection in the time given", self->endpoint_.to_string())));
    });
    resolver_.async_resolve(resolver_host(endpoint_), std::to_string(endpoint_.port),
                            tcp::resolver::numeric_service,
                            [self = shared_from_this()](const error_code& error,
                                                        const tcp::resolver::results_type& to) {
                              if (error) return self->abort(unavailable(self->endpoint_, error));
                              self->connect(to);
                            });
  }

  void abort(const Error& reason) override {
    if (!done_) return;
    stop();
    socket_.close(ignored_);
    std::exchange(done_, nullptr)(fail(reason));
  }

 private:
  void connect(const tcp::resolver::results_type& to) {
    if (!done_) return;
    asio::async_connect(socket_, to,
                        [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
                          if (error) return self->abort(unavailable(self->endpoint_, error));
                          self->finish();
                        });
  }

  void finish() {
    if (!done_) return;
    stop();
    const auto connection = std::make_shared<TcpConnection>(context_, std::move(socket_), options_,
                                                            TcpConnection::Side::kDialled);
    registry_->add(connection);
    std::exchange(done_, nullptr)(std::static_pointer_cast<Connection>(connection));
    connection->start(std::exchange(handler_, nullptr));
  }

  void stop() {
    timer_.cancel();
    resolver_.cancel();
  }

  const std::shared_ptr<asio::io_context> context_;
  const TcpOptions options_;
  const std::shared_ptr<Registry> registry_;
  const Endpoint endpoint_;
  DialHandler done_;
  std::shared_ptr<ConnectionHandler> handler_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  error_code ignored_;
};

TcpTransport::TcpTransport(NetworkThread& thread, TcpOptions options)
    : thread_(thread), options_(options), registry_(std::make_shared<Registry>()) {}

TcpTransport::~TcpTransport() {
  thread_.run([this] { registry_->abort_all(); });
}

Result<std::unique_ptr<Listener>> TcpTransport::listen(const Endpoint& endpoint,
                                                       AcceptHandler on_accept) {
  const auto& context = thread_.context();
  error_code error;
  tcp::resolver resolver(*context);
  const auto results =
      resolver.resolve(resolver_host(endpoint), std::to_string(endpoint.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return fail(unavailable(endpoint, error).with_context("listen"));
  const tcp::endpoint address = results.begin()->endpoint();
  tcp::acceptor acceptor(*context);
  acceptor.open(address.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(address, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail(unavailable(endpoint, error).with_context("listen"));
  const Endpoint bound{endpoint.host, acceptor.local_endpoint(error).port()};
  auto loop = std::make_shared<AcceptLoop>(context, std::move(acceptor), options_, registry_,
                                           std::move(on_accept));
  thread_.run([this, &loop] {
    registry_->add(loop);
    loop->accept_next();
  });
  return std::make_unique<TcpListener>(thread_, std::move(loop), bound);
}

void TcpTransport::dial(const Endpoint& endpoint, Deadline deadline,
                        std::shared_ptr<ConnectionHandler> handler, DialHandler done) {
  auto dialler =
      std::make_shared<Dialler>(thread_.context(), options_, registry_, endpoint, std::move(done));
  thread_.post([registry = registry_, dialler, deadline, handler = std::move(handler)]() mutable {
    registry->add(dialler);
    dialler->start(deadline, std::move(handler));
  });
}

}  // namespace paceline::net
