// Reads protobuf's wire format field by field, without a schema. Private to this folder.
//
// Not the library: that is a dependency of wire alone, and a vocabulary needs six fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace paceline::model {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct ProtobufField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;      ///< of a varint or fixed field
  std::string_view bytes = {};  ///< of a string, bytes or message field: a view into the message
};

/// Goes through one message; the bytes must outlive it. Nothing is allocated.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : left_(message), size_(message.size()) {}

  /// The next field, none at the end; kDataLoss names the byte where the message is broken.
  Result<std::optional<ProtobufField>> next();

 private:
  Result<std::uint64_t> varint();
  Result<std::uint64_t> fixed(std::size_t bytes);
  [[nodiscard]] tl::unexpected<Error> broken(std::string_view what) const;

  std::string_view left_;
  std::size_t size_;
};

}  // namespace paceline::model
