// How long work of this folder tells what it has done, and learns that nobody wants it any more.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace paceline::shard {

/// Called after each file and extent with bytes done and to do; one call at a time, from any of
/// the threads.
using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// Asked between pieces of long work, from any of its threads; false ends it with kCancelled.
/// Empty: it is always wanted.
using IsWanted = std::function<bool()>;

/// Adds up what the threads have done and tells the caller. Thread-safe; the function outlives it.
class ProgressSum {
 public:
  ProgressSum(const Progress& progress, std::uint64_t total) : progress_(progress), total_(total) {}
  void add(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

 private:
  const Progress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;  // guarded by mutex_
  std::mutex mutex_;
};

}  // namespace paceline::shard
