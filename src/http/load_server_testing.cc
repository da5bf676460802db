// A server for tests/http_load.py: GET /hello, and GET /stream?id=N, which gets an event each few
// milliseconds from one thread, as the tokens of a batch come. Prints its port; ends with its
// input.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"

namespace {

using paceline::http::Exchange;
using paceline::http::Response;

constexpr int kEvents = 100;
constexpr auto kInterval = std::chrono::milliseconds(20);

/// All streams, and the thread that writes to them.
class Ticker {
 public:
  ~Ticker() {
    is_stopped_ = true;
    thread_.join();
  }
  void add(std::shared_ptr<Exchange> exchange) {
    const std::lock_guard lock(mutex_);
    streams_.push_back({std::move(exchange), 0});
  }

 private:
  struct Stream {
    std::shared_ptr<Exchange> exchange;
    int sent;
  };

  /// True where the stream is over.
  static bool advance(Stream& stream) {
    const std::string& id = stream.exchange->request().query.at("id");
    if (!stream.exchange->write(fmt::format("data: {}-{}\n\n", id, stream.sent))) return true;
    if (++stream.sent < kEvents) return false;
    stream.exchange->end();
    return true;
  }

  void run() {
    while (!is_stopped_) {
      std::this_thread::sleep_for(kInterval);
      const std::lock_guard lock(mutex_);
      std::erase_if(streams_, advance);
    }
  }

  std::mutex mutex_;
  std::vector<Stream> streams_;
  std::atomic<bool> is_stopped_ = false;
  std::thread thread_{[this] { run(); }};
};

}  // namespace

int main() {
  Ticker ticker;
  paceline::http::Router router;
  router.add("GET", "/hello", [](const std::shared_ptr<Exchange>& exchange) {
    Response response;
    response.body = R"("hello")";
    exchange->respond(std::move(response));
  });
  router.add("GET", "/stream", [&ticker](const std::shared_ptr<Exchange>& exchange) {
    if (!exchange->request().query.contains("id")) return;
    Response head;
    head.content_type = "text/event-stream";
    exchange->begin_stream(std::move(head));
    ticker.add(exchange);
  });
  auto server = paceline::http::Server::start({}, std::move(router));
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().message().c_str());
    return 1;
  }
  std::printf("%u\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  const auto cut = (*server)->drain(paceline::Deadline::after(std::chrono::seconds(5)));
  std::printf("cut %zu\n", cut);
  return 0;
}
