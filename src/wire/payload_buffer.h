// A buffer that grows to an announced size only as bytes arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/shared_bytes.h"

namespace paceline::wire {

/// Lifecycle: reset(size) -> fill tail() and add_filled() until is_full() -> release(). A peer
/// that announces a gigabyte and sends nothing so costs kFirstBytes. Grows by doubling, with
/// realloc(), which moves pages of large blocks instead of copying. Aligned to 16.
/// Thread-compatible.
class PayloadBuffer {
 public:
  static constexpr std::size_t kFirstBytes = std::size_t{1} << 20;

  PayloadBuffer() = default;
  PayloadBuffer(PayloadBuffer&& other) noexcept;
  PayloadBuffer& operator=(PayloadBuffer&& other) noexcept;
  ~PayloadBuffer();

  /// Empties it and announces `size` bytes.
  void reset(std::uint64_t size);
  bool is_full() const { return filled_ == size_; }
  std::size_t capacity() const { return capacity_; }
  /// What is filled.
  std::span<const std::byte> bytes() const { return {data_, filled_}; }

  /// Room for the next bytes: at least one, unless full or memory is exhausted.
  std::span<std::byte> tail();
  void add_filled(std::size_t count);

  /// Hands the bytes over and leaves the buffer empty.
  SharedBytes release();

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace paceline::wire
