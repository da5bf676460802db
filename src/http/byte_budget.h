// A bound on bytes that are held by many at once. Internal.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace paceline::http {

/// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  bool take(std::size_t bytes) {
    std::size_t used = used_.load();
    do {
      if (bytes > max_bytes_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t used() const { return used_.load(); }

 private:
  const std::size_t max_bytes_;
  std::atomic<std::size_t> used_ = 0;
};

/// Bytes of a budget, given back when it goes. Move-only.
class ByteLease {
 public:
  ByteLease() = default;
  explicit ByteLease(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ByteLease(ByteLease&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteLease& operator=(ByteLease&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ByteLease() {
    if (budget_ && bytes_ > 0) budget_->give_back(bytes_);
  }

  /// Makes it `bytes` in all; false where the budget has no room for them.
  bool grow_to(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  std::shared_ptr<ByteBudget> budget_;
  std::size_t bytes_ = 0;
};

}  // namespace paceline::http
