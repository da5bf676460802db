#include "worker/work_queue.h"

#include <utility>

namespace paceline::worker {

WorkQueue::WorkQueue(std::size_t capacity, const Clock& clock, Duration poll_time)
    : capacity_(capacity), clock_(clock), poll_time_(poll_time), thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() { stop(); }

void WorkQueue::stop() {
  std::deque<std::function<void()>> dropped;  // what they hold is freed without the mutex
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status WorkQueue::push(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return fail(ErrorCode::kUnavailable, "this worker is ending");
    if (jobs_.size() >= capacity_) {
      return fail(ErrorCode::kResourceExhausted, "{} jobs are waiting already", jobs_.size());
    }
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return {};
}

void WorkQueue::push_always(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

WorkQueue::Load WorkQueue::load() const {
  const std::lock_guard lock(mutex_);
  Load load;
  load.queued = jobs_.size();
  if (busy_since_) load.busy = clock_.now() - *busy_since_;
  return load;
}

bool WorkQueue::has_news() const {
  const std::lock_guard lock(mutex_);
  return stopping_ || !jobs_.empty();
}

void WorkQueue::poll() const {
  const TimePoint until = clock_.now() + poll_time_;
  while (!has_news() && clock_.now() < until) std::this_thread::yield();
}

void WorkQueue::run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_since_ = clock_.now();
    }
    job();
    job = nullptr;  // frees what it holds while still busy
    {
      const std::lock_guard lock(mutex_);
      busy_since_.reset();
    }
    poll();
  }
}

}  // namespace paceline::worker
