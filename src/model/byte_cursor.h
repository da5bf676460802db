// Reads little-endian numbers and strings off foreign bytes, checking each against what is left.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"

namespace paceline::model {

static_assert(std::endian::native == std::endian::little, "GGUF's numbers are read as they lie");

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  /// The next `count` bytes; kDataLoss names `field` where fewer are left.
  Result<std::span<const std::byte>> take(std::uint64_t count, std::string_view field) {
    if (count > remaining()) {
      return fail(ErrorCode::kDataLoss, "{}: {} bytes are expected at byte {}, only {} are left",
                  field, count, position_, remaining());
    }
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }

  template <typename Number>
  Result<Number> number(std::string_view field) {
    PACELINE_ASSIGN_OR_RETURN(const auto taken, take(sizeof(Number), field));
    Number value;
    std::memcpy(&value, taken.data(), sizeof(Number));
    return value;
  }

  /// A 64-bit length and that many bytes.
  Result<std::string_view> string(std::string_view field) {
    PACELINE_ASSIGN_OR_RETURN(const auto length, number<std::uint64_t>(field));
    PACELINE_ASSIGN_OR_RETURN(const auto taken, take(length, field));
    return std::string_view(reinterpret_cast<const char*>(taken.data()), taken.size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace paceline::model
