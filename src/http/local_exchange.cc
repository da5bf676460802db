#include "http/local_exchange.h"

namespace paceline::http {

// Calls are made, and dropped, without the lock: what they hold may lead back to this.

void LocalExchange::on_gone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!has_gone_) {
      std::swap(on_gone_, call);
      return;
    }
  }
  call();
}

bool LocalExchange::go() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    has_gone_ = true;
    call = std::exchange(on_gone_, {});
  }
  if (call) call();
  return static_cast<bool>(call);
}

void LocalExchange::forget_gone() {
  std::function<void()> dropped;  // after the lock
  const std::lock_guard lock(mutex_);
  std::swap(dropped, on_gone_);
}

}  // namespace paceline::http
