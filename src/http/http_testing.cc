#include "http/http_testing.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "http/ascii.h"

namespace paceline::http {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

Response text(std::string body) {
  Response response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

std::string shown(const std::map<std::string, std::string>& values) {
  std::string result;
  for (const auto& [name, value] : values) result += name + "=" + value + ";";
  return result;
}

}  // namespace

TestClient::TestClient(std::uint16_t port, int receive_buffer_bytes) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
  }
  const timeval patience{kPatience.count(), 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

TestClient::~TestClient() {
  if (socket_ >= 0) ::close(socket_);
}

bool TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool TestClient::fill() {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), 0);
  if (count <= 0) return false;
  input_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

std::string TestClient::read_some() {
  if (input_.empty()) fill();
  return std::exchange(input_, {});
}

bool TestClient::is_closed_by_server() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (fill()) input_.clear();
  return std::chrono::steady_clock::now() < until;
}

void TestClient::end_sending() { ::shutdown(socket_, SHUT_WR); }

void TestClient::vanish() {
  const linger at_once{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(std::exchange(socket_, -1));
}

/// Without its "\r\n"; what is there where the connection ends before.
std::string TestClient::take_line() {
  while (input_.find("\r\n") == std::string::npos) {
    if (!fill()) return std::exchange(input_, {});
  }
  const std::size_t end = input_.find("\r\n");
  std::string line = input_.substr(0, end);
  input_.erase(0, end + 2);
  return line;
}

bool TestClient::read_chunks(TestResponse& response) {
  while (true) {
    const std::string line = take_line();
    if (line.empty()) return false;
    const std::size_t bytes = std::strtoul(line.c_str(), nullptr, 16);
    while (input_.size() < bytes + 2) {
      if (!fill()) return false;
    }
    response.body += input_.substr(0, bytes);
    if (input_.substr(bytes, 2) != "\r\n") return false;
    input_.erase(0, bytes + 2);
    if (bytes == 0) return true;
    ++response.chunks;
  }
}

TestResponse TestClient::read_response(bool is_to_head) {
  TestResponse response;
  const std::string status = take_line();
  if (!status.starts_with("HTTP/1.1 ")) return response;
  response.status = std::atoi(status.c_str() + 9);
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return response;
    response.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  if (is_to_head || response.status < 200 || response.status == 204) {
    response.is_whole = true;
  } else if (response.headers.contains("transfer-encoding")) {
    response.is_whole = read_chunks(response);
  } else {
    const std::size_t bytes = std::strtoul(response.headers["content-length"].c_str(), nullptr, 10);
    while (input_.size() < bytes && fill()) {
    }
    response.is_whole = input_.size() >= bytes;
    response.body = input_.substr(0, bytes);
    input_.erase(0, bytes);
  }
  return response;
}

std::string get(std::string_view path, std::string_view more) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more);
}

std::string post(std::string_view path, std::string_view body, std::string_view more) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      path, body.size(), more, body);
}

void HeldExchanges::add(std::shared_ptr<Exchange> exchange) {
  const std::lock_guard lock(mutex_);
  exchanges_.push_back(std::move(exchange));
  changed_.notify_all();
}

std::shared_ptr<Exchange> HeldExchanges::next() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [this] { return !exchanges_.empty(); })) return nullptr;
  auto first = std::move(exchanges_.front());
  exchanges_.erase(exchanges_.begin());
  return first;
}

void Signal::set() {
  const std::lock_guard lock(mutex_);
  ++count_;
  changed_.notify_all();
}

bool Signal::wait(Duration time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return count_ > 0; });
}

int Signal::count() {
  const std::lock_guard lock(mutex_);
  return count_;
}

TestServer::TestServer(ServerOptions options) {
  options.access_log = [this](const AccessRecord& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
    changed_.notify_all();
  };
  auto server = Server::start(std::move(options), routes());
  if (!server) throw std::runtime_error(server.error().message());
  server_ = std::move(*server);
}

Router TestServer::routes() {
  using Shared = std::shared_ptr<Exchange>;
  Router router;
  router.add("GET", "/hello", [](const Shared& exchange) { exchange->respond(text("hello")); });
  const auto who = [](const Shared& exchange) {
    exchange->respond(text("tenant:" + exchange->request().tenant));
  };
  router.add("GET", "/who", who);
  router.add("GET", "/open", who, {.needs_key = false});
  const auto echo = [](const Shared& exchange) {
    exchange->respond(text(exchange->request().body));
  };
  router.add("POST", "/echo", echo);
  router.add("POST", "/small", echo, {.max_body_bytes = 64});
  router.add("POST", "/upload", echo, {.content_type = "multipart/form-data"});
  router.add("GET", "/models/{name...}", [](const Shared& exchange) {
    const Request& request = exchange->request();
    exchange->respond(text(shown(request.path_values) + shown(request.query)));
  });
  const auto hold = [this](Shared exchange) { held.add(std::move(exchange)); };
  router.add("GET", "/hold", hold);
  router.add("POST", "/hold", hold);
  router.add("GET", "/throw", [](const Shared&) { throw std::runtime_error("as asked"); });
  router.add("GET", "/drop", [](const Shared&) {});
  router.add("GET", "/stream", [](const Shared& exchange) {
    auto query = exchange->request().query;
    const std::string piece(std::strtoul(query["bytes"].c_str(), nullptr, 10), 'x');
    exchange->begin_stream(text({}));
    for (unsigned long i = std::strtoul(query["count"].c_str(), nullptr, 10); i > 0; --i) {
      if (!exchange->write(piece)) return;
    }
    exchange->end();
  });
  return router;
}

std::vector<AccessRecord> TestServer::records() {
  const std::lock_guard lock(mutex_);
  return records_;
}

std::vector<AccessRecord> TestServer::records(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [this, count] { return records_.size() >= count; });
  return records_;
}

}  // namespace paceline::http
