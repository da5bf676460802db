// What the tests of this folder share: a server with routes of each kind, and a client of raw
// bytes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"

namespace paceline::http {

struct TestResponse {
  int status = 0;  ///< 0: nothing came, or no HTTP
  std::map<std::string, std::string> headers;
  std::string body;        ///< without chunks
  std::size_t chunks = 0;  ///< before the last, empty one
  bool is_whole = false;   ///< Content-Length bytes, or the last chunk
};

/// A blocking socket; every wait ends after ten seconds. Written without Asio or Beast, so that it
/// does not share their mistakes.
class TestClient {
 public:
  explicit TestClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool is_connected() const { return socket_ >= 0; }
  bool send(std::string_view bytes);
  /// As much as is there; empty at the end, or where nothing came.
  std::string read_some();
  /// True where the server has closed: reads, and drops, what comes before.
  bool is_closed_by_server();
  void end_sending();
  /// At once, with a reset.
  void vanish();
  TestResponse read_response(bool is_to_head = false);
  TestResponse ask(std::string_view request) {
    send(request);
    return read_response();
  }

 private:
  bool fill();
  std::string take_line();
  bool read_chunks(TestResponse& response);

  int socket_ = -1;
  std::string input_;
};

/// "GET PATH HTTP/1.1" with Host, and more header lines, each with "\r\n".
std::string get(std::string_view path, std::string_view more = {});
std::string post(std::string_view path, std::string_view body, std::string_view more = {});

/// An exchange that a handler kept, for a test to answer.
class HeldExchanges {
 public:
  void add(std::shared_ptr<Exchange> exchange);
  std::shared_ptr<Exchange> next();  ///< null where none comes

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

/// A flag that another thread sets.
class Signal {
 public:
  void set();
  bool wait(Duration time = std::chrono::seconds(10));
  int count();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// Routes: GET /hello; GET /open (needs no key); POST /echo; POST /small (64 bytes at most); POST
/// /upload (multipart); GET /models/{name...}; GET /hold and POST /hold (kept); GET /throw; GET
/// /drop (let go); GET /stream?count=N&bytes=N; GET /who (the tenant).
class TestServer {
 public:
  explicit TestServer(ServerOptions options = {});
  Server& operator*() { return *server_; }
  Server* operator->() { return server_.get(); }
  void stop() { server_.reset(); }
  std::uint16_t port() const { return server_->port(); }
  std::vector<AccessRecord> records();
  /// Waits until there are so many.
  std::vector<AccessRecord> records(std::size_t count);

  HeldExchanges held;

 private:
  Router routes();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<AccessRecord> records_;
  std::unique_ptr<Server> server_;
};

}  // namespace paceline::http
