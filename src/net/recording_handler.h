// A handler that keeps what happens on a connection and lets a test wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace paceline::net {

/// Thread-safe. Waits are bounded by kPatience, far above what any of them takes.
class RecordingHandler final : public ConnectionHandler {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  void on_frame(wire::Frame frame) override {
    if (on_frame_hook) on_frame_hook(frame);
    const std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
    changed_.notify_all();
  }
  void on_closed(const Error& reason) override {
    const std::lock_guard lock(mutex_);
    ++closed_count_;
    reason_ = reason;
    changed_.notify_all();
  }

  /// The first `count` frames; fewer where they do not come in time.
  std::vector<wire::Frame> wait_for_frames(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return frames_.size() >= count; });
    return frames_;
  }
  /// Why the connection was closed; nullopt where it was not in time.
  std::optional<Error> wait_for_close() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return reason_.has_value(); });
    return reason_;
  }
  std::size_t frame_count() const {
    const std::lock_guard lock(mutex_);
    return frames_.size();
  }
  int closed_count() const {
    const std::lock_guard lock(mutex_);
    return closed_count_;
  }

  /// Set before the connection begins; called on the network thread.
  std::function<void(const wire::Frame&)> on_frame_hook;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<wire::Frame> frames_;
  std::optional<Error> reason_;
  int closed_count_ = 0;
};

}  // namespace paceline::net
