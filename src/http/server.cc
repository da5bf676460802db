#include "http/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "http/byte_stream.h"
#include "http/connection.h"
#include "http/server_core.h"

namespace paceline::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// Over the limit, so many connections are still told that there are too many.
constexpr std::size_t kMaxRefused = 64;
constexpr auto kPollTime = std::chrono::milliseconds(5);

std::string authority_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), address,
                     endpoint.port());
}

/// Each connection is a descriptor, and many systems give a process 1,024 unless it asks for more.
void raise_descriptor_limit(std::size_t connections) {
  const rlim_t wanted = connections + 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    spdlog::warn("at most {} connections: the system gives this process {} open files",
                 limit.rlim_cur > 256 ? limit.rlim_cur - 256 : 0, limit.rlim_cur);
  }
}

Result<tcp::endpoint> endpoint_of(const ServerOptions& options) {
  error_code error;
  const std::string text = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(text, error);
  if (error) {
    return fail(ErrorCode::kInvalidArgument, "address {}: expected an IP address or localhost",
                options.address);
  }
  return tcp::endpoint(address, options.port);
}

Status check_options(const ServerOptions& options) {
  const auto refuse = [](const char* name) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected at least 1", name);
  };
  if (options.handler_threads == 0) return refuse("handler_threads");
  if (options.max_connections == 0) return refuse("max_connections");
  if (options.min_body_rate == 0) return refuse("min_body_rate");
  if (options.max_header_bytes < 256 || options.max_header_bytes > (std::size_t{1} << 20)) {
    return fail(ErrorCode::kInvalidArgument, "max_header_bytes: expected 256 to 1 MiB");
  }
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return fail(ErrorCode::kInvalidArgument, "TLS: expected a certificate and a key, or neither");
  }
  return {};
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options, Router router, HostRules rules)
      : core(std::make_shared<ServerCore>(std::move(options), std::move(router), std::move(rules))),
        acceptor(*core->context),
        retry_timer(*core->context),
        work(asio::make_work_guard(*core->context)) {}

  Status listen(const tcp::endpoint& wanted);
  void accept_next();
  void on_accept(const error_code& error, tcp::socket socket);
  void begin_drain();
  void for_each_connection(void (Connection::*call)());
  void run_on_loop(const std::function<void()>& task);
  void cut_all();

  const std::shared_ptr<ServerCore> core;
  std::shared_ptr<asio::ssl::context> tls;
  tcp::acceptor acceptor;
  asio::steady_timer retry_timer;
  tcp::endpoint endpoint;
  std::atomic<bool> is_aborted = false;
  std::atomic<std::size_t> cut_requests = 0;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
};

Status Server::Impl::listen(const tcp::endpoint& wanted) {
  error_code error;
  const auto attempt = [&error](auto&& step) {
    if (!error) step();
  };
  attempt([&] { acceptor.open(wanted.protocol(), error); });
  attempt([&] { acceptor.set_option(tcp::acceptor::reuse_address(true), error); });
  attempt([&] { acceptor.bind(wanted, error); });
  attempt([&] { acceptor.listen(asio::socket_base::max_listen_connections, error); });
  attempt([&] { endpoint = acceptor.local_endpoint(error); });
  if (!error) return {};
  const bool is_taken = error == asio::error::address_in_use;
  return fail(is_taken ? ErrorCode::kAlreadyExists : ErrorCode::kUnavailable, "listening on {}: {}",
              authority_of(wanted), error.message());
}

void Server::Impl::accept_next() {
  acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (!acceptor.is_open()) return;  // what was accepted just before is dropped with the socket
    on_accept(error, std::move(socket));
  });
}

void Server::Impl::on_accept(const error_code& error, tcp::socket socket) {
  if (error) {
    // No more descriptors, most likely: the connection waits in the system's queue meanwhile.
    spdlog::warn("accepting a connection: {}", error.message());
    retry_timer.expires_after(std::chrono::milliseconds(100));
    retry_timer.async_wait([this](const error_code& ended) {
      if (!ended && acceptor.is_open()) accept_next();
    });
    return;
  }
  error_code ignored;
  const tcp::endpoint peer = socket.remote_endpoint(ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const std::size_t open = core->connections.size();
  if (open < core->options.max_connections + kMaxRefused) {
    auto stream =
        tls ? make_tls_stream(std::move(socket), tls) : make_plain_stream(std::move(socket));
    auto connection = std::make_shared<Connection>(core, std::move(stream), authority_of(peer));
    if (open >= core->options.max_connections) connection->refuse();
    core->connections.insert(connection);
    ++core->open_connections;
    connection->start();
  }
  accept_next();
}

void Server::Impl::run_on_loop(const std::function<void()>& task) {
  std::promise<void> done;
  asio::post(*core->context, [&task, &done] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

/// A copy: what is called may take connections out of the set.
void Server::Impl::for_each_connection(void (Connection::*call)()) {
  const std::vector<std::shared_ptr<Connection>> all(core->connections.begin(),
                                                     core->connections.end());
  for (const auto& connection : all) ((*connection).*call)();
}

void Server::Impl::begin_drain() {
  error_code ignored;
  acceptor.close(ignored);
  retry_timer.cancel();
  core->is_draining = true;
  for_each_connection(&Connection::stop_keeping_alive);
}

void Server::Impl::cut_all() {
  cut_requests += core->open_requests;
  begin_drain();
  for_each_connection(&Connection::abort);
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  impl_->run_on_loop([this] { impl_->cut_all(); });
  impl_->core->pool.stop();
  impl_->work.reset();
  impl_->thread.join();
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Router router) {
  PACELINE_RETURN_IF_ERROR(check_options(options));
  PACELINE_ASSIGN_OR_RETURN(const tcp::endpoint wanted, endpoint_of(options));
  std::shared_ptr<asio::ssl::context> tls;
  if (!options.tls_certificate.empty()) {
    PACELINE_ASSIGN_OR_RETURN(tls, make_tls_context(options.tls_certificate, options.tls_key));
  }
  raise_descriptor_limit(options.max_connections);
  HostRules rules({wanted.address().to_string(), wanted.address().is_loopback(),
                   options.allowed_hosts, options.cors_origins});
  auto impl = std::make_unique<Impl>(std::move(options), std::move(router), std::move(rules));
  impl->tls = std::move(tls);
  PACELINE_RETURN_IF_ERROR(impl->listen(wanted));
  impl->accept_next();
  impl->thread = std::thread([context = impl->core->context] { context->run(); });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::uint16_t Server::port() const { return impl_->endpoint.port(); }

std::string Server::url() const {
  return fmt::format("{}://{}", impl_->tls ? "https" : "http", authority_of(impl_->endpoint));
}

ServerCounts Server::counts() const {
  return {impl_->core->open_connections, impl_->core->open_requests, impl_->core->open_streams};
}

std::size_t Server::drain(Deadline deadline) {
  ServerCore& core = *impl_->core;
  impl_->run_on_loop([this] { impl_->begin_drain(); });
  const auto wait_until_zero = [this, deadline](const std::atomic<std::size_t>& count) {
    while (count > 0 && !deadline.has_passed() && !impl_->is_aborted) {
      std::this_thread::sleep_for(kPollTime);
    }
  };
  wait_until_zero(core.open_requests);
  impl_->run_on_loop([this] { impl_->for_each_connection(&Connection::close_if_idle); });
  wait_until_zero(core.open_connections);
  impl_->run_on_loop([this] { impl_->cut_all(); });
  return impl_->cut_requests;
}

void Server::abort() {
  impl_->is_aborted = true;
  impl_->run_on_loop([this] { impl_->cut_all(); });
}

}  // namespace paceline::http
