#include "model/protobuf_reader.h"

namespace paceline::model {

tl::unexpected<Error> ProtobufReader::broken(std::string_view what) const {
  return fail(ErrorCode::kDataLoss, "byte {}: {}", size_ - left_.size(), what);
}

Result<std::uint64_t> ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (left_.empty()) return broken("the message ends within a number");
    const auto byte = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return broken("a number has more than ten bytes");
}

Result<std::uint64_t> ProtobufReader::fixed(std::size_t bytes) {
  if (left_.size() < bytes) return broken("the message ends within a number");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= std::uint64_t{static_cast<std::uint8_t>(left_[i])} << (8 * i);
  }
  left_.remove_prefix(bytes);
  return value;
}

Result<std::optional<ProtobufField>> ProtobufReader::next() {
  if (left_.empty()) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t tag, varint());
  ProtobufField field;
  field.number = static_cast<std::uint32_t>(tag >> 3U);
  field.type = static_cast<WireType>(tag & 7U);
  if (tag >> 3U == 0 || tag >> 32U != 0) return broken("a field's number is out of range");
  switch (field.type) {
    case WireType::kVarint: {
      PACELINE_ASSIGN_OR_RETURN(field.value, varint());
      return field;
    }
    case WireType::kFixed64: {
      PACELINE_ASSIGN_OR_RETURN(field.value, fixed(8));
      return field;
    }
    case WireType::kFixed32: {
      PACELINE_ASSIGN_OR_RETURN(field.value, fixed(4));
      return field;
    }
    case WireType::kBytes: {
      PACELINE_ASSIGN_OR_RETURN(const std::uint64_t size, varint());
      if (size > left_.size()) return broken("a field is longer than the message");
      field.bytes = left_.substr(0, size);
      left_.remove_prefix(size);
      return field;
    }
  }
  return broken("a field's type is unknown");
}

}  // namespace paceline::model
