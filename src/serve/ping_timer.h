// Comments in streams that have nothing to say for long, so that nothing on the way gives up on
// them.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "serve/reply.h"

namespace paceline::serve {

/// One thread for all streams. Thread-safe.
class PingTimer {
 public:
  /// `interval` without a byte brings a ping. The clock must outlive it.
  PingTimer(const Clock& clock, Duration interval);
  ~PingTimer();

  /// Until the reply is gone.
  void add(const std::shared_ptr<Reply>& reply);
  /// What the thread does now and then.
  void look();

 private:
  void run(const std::stop_token& stop);

  const Clock& clock_;
  const Duration interval_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::weak_ptr<Reply>> replies_;
  std::jthread thread_;  ///< the last: it uses all the others
};

}  // namespace paceline::serve
