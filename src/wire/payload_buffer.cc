#include "wire/payload_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace paceline::wire {

PayloadBuffer::PayloadBuffer(PayloadBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      filled_(std::exchange(other.filled_, 0)) {}

PayloadBuffer& PayloadBuffer::operator=(PayloadBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(filled_, other.filled_);
  return *this;
}

PayloadBuffer::~PayloadBuffer() { std::free(data_); }  // NOLINT: realloc's counterpart

void PayloadBuffer::reset(std::uint64_t size) {
  filled_ = 0;
  size_ = static_cast<std::size_t>(size);
  // A kept block is used again, but not one far larger than what a small message needs.
  if (capacity_ > std::max(size_, kFirstBytes)) {
    std::free(std::exchange(data_, nullptr));  // NOLINT
    capacity_ = 0;
  }
}

std::span<std::byte> PayloadBuffer::tail() {
  if (filled_ == capacity_ && filled_ < size_) {
    const std::size_t wanted = std::min(size_, std::max(capacity_ * 2, kFirstBytes));
    void* grown = std::realloc(data_, wanted);  // NOLINT
    if (grown == nullptr) return {};
    data_ = static_cast<std::byte*>(grown);
    capacity_ = wanted;
  }
  return {data_ + filled_, std::min(size_, capacity_) - filled_};
}

void PayloadBuffer::add_filled(std::size_t count) {
  PACELINE_CHECK(count <= std::min(size_, capacity_) - filled_);
  filled_ += count;
}

SharedBytes PayloadBuffer::release() {
  const std::span<const std::byte> view(data_, filled_);
  std::shared_ptr<const void> owner(data_, [](std::byte* data) { std::free(data); });  // NOLINT
  data_ = nullptr;
  size_ = capacity_ = filled_ = 0;
  return SharedBytes(std::move(owner), view);
}

}  // namespace paceline::wire
