// A view of bytes that keeps their owner alive, so that tensors travel without being copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace paceline::wire {

/// Immutable and thread-safe to read. Shared, because one buffer may at once be on its way to a
/// socket, kept for a replay and read by an engine.
class SharedBytes {
 public:
  SharedBytes() = default;
  /// `bytes` must stay valid and unchanged while `owner` lives.
  SharedBytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  static SharedBytes own(std::vector<std::byte> bytes) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    const std::span<const std::byte> view(*owner);
    return SharedBytes(std::move(owner), view);
  }
  static SharedBytes copy_of(std::span<const std::byte> bytes) {
    return own(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

  /// Compares contents.
  friend bool operator==(const SharedBytes& a, const SharedBytes& b) {
    return std::ranges::equal(a.bytes_, b.bytes_);
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace paceline::wire
