// One thread that does a worker's jobs in order: loading, steps, freeing. Network threads only
// put jobs in, so they never wait on an engine.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace paceline::worker {

/// Thread-safe. After a job it looks for the next one for `poll_time` before it sleeps: a core that
/// sleeps between the turns of a chain computes each turn slower. It yields to whoever else wants
/// the core. The destructor stops it. Destroy it on no thread that a job may wait for.
class WorkQueue {
 public:
  struct Load {
    std::size_t queued = 0;
    Duration busy = {};  ///< how long the current job has been running; zero when idle
  };

  WorkQueue(std::size_t capacity, const Clock& clock, Duration poll_time = {});
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// kResourceExhausted where `capacity` jobs wait already, kUnavailable once it is stopped.
  Status push(std::function<void()> job);
  /// Also beyond the capacity: for jobs that free what others took. Dropped once it is stopped.
  void push_always(std::function<void()> job);
  /// Waits for the current job and drops the others; nothing runs after it. For one thread.
  void stop();
  Load load() const;

 private:
  void run();
  void poll() const;
  bool has_news() const;

  const std::size_t capacity_;
  const Clock& clock_;
  const Duration poll_time_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::optional<TimePoint> busy_since_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace paceline::worker
