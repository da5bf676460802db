#include "http/handler_pool.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace paceline::http {

HandlerPool::HandlerPool(std::size_t threads, std::size_t max_queued) : max_queued_(max_queued) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

bool HandlerPool::submit(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_ || queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void HandlerPool::stop() {
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    dropped.swap(queue_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void HandlerPool::run() {
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopped_ || !queue_.empty(); });
      if (is_stopped_) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      task();  // what it holds of the exchange goes with it: unanswered is answered 500
    } catch (const std::exception& error) {
      spdlog::error("a handler failed: {}", error.what());
    }
  }
}

}  // namespace paceline::http
