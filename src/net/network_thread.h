// The one thread on which a process's connections live.
//
// Not a pool: with one thread nothing here needs strands, and a thread that only moves bytes keeps
// up with several links. What computes or waits belongs elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace boost::asio {
class io_context;
}

namespace paceline::net {

/// Runs an Asio loop from construction to destruction. Transports and relays that use it must be
/// destroyed before it; the destructor waits until the loop has nothing left. Thread-safe.
class NetworkThread {
 public:
  NetworkThread();
  ~NetworkThread();
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  bool is_current() const;
  /// Runs `task` on the thread, after what was posted before. Never blocks.
  void post(std::function<void()> task);
  /// Runs `task` on the thread and returns after it; at once where this is the thread.
  void run(const std::function<void()>& task);

  /// For this folder only. Shared, because a connection may be held longer than the thread lives.
  const std::shared_ptr<boost::asio::io_context>& context() const { return context_; }

 private:
  struct Work;
  std::shared_ptr<boost::asio::io_context> context_;
  std::unique_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace paceline::net
