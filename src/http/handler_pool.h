// The threads that handlers run on. Internal.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::http {

/// A few threads and a bounded queue. Thread-safe.
class HandlerPool {
 public:
  using Task = std::function<void()>;

  HandlerPool(std::size_t threads, std::size_t max_queued);
  ~HandlerPool() { stop(); }
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  /// False where the queue is full, or the pool has stopped: the task will not run. Never blocks.
  bool submit(Task task);
  /// Waits for tasks that run; drops those that wait.
  void stop();

 private:
  void run();

  const std::size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paceline::http
