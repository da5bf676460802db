#include "serve/ping_timer.h"

#include <algorithm>

namespace paceline::serve {
namespace {

/// How much later than the interval a ping may come.
constexpr int kLooksPerInterval = 15;

}  // namespace

PingTimer::PingTimer(const Clock& clock, Duration interval)
    : clock_(clock),
      interval_(interval),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

PingTimer::~PingTimer() {
  thread_.request_stop();
  thread_.join();
}

void PingTimer::add(const std::shared_ptr<Reply>& reply) {
  const std::lock_guard lock(mutex_);
  replies_.push_back(reply);
}

void PingTimer::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, interval_ / kLooksPerInterval, [] { return false; });
    lock.unlock();
    look();
    lock.lock();
  }
}

void PingTimer::look() {
  std::vector<std::shared_ptr<Reply>> alive;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(replies_, [](const auto& reply) { return reply.expired(); });
    for (const auto& reply : replies_) {
      if (auto kept = reply.lock()) alive.push_back(std::move(kept));
    }
  }
  for (const auto& reply : alive) reply->ping(clock_.now() - interval_);
}

}  // namespace paceline::serve
