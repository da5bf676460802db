#include "wire/header_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "wire/proto_include.h"

namespace paceline::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

/// Walks one message; the schema is not recursive, so neither is this without bound.
class FieldCounter {
 public:
  explicit FieldCounter(std::uint64_t most) : most_(most) {}
  std::uint64_t count() const { return count_; }

  Status walk(std::span<const std::byte> bytes, const Descriptor& type) {
    google::protobuf::io::CodedInputStream in(
        reinterpret_cast<const std::uint8_t*>(bytes.data()),  // NOLINT: what protobuf takes
        static_cast<int>(bytes.size()));
    while (const std::uint32_t tag = in.ReadTag()) {
      if (++count_ > most_) {
        return fail(ErrorCode::kResourceExhausted, "message header: more than {} fields", most_);
      }
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      PACELINE_RETURN_IF_ERROR(skip_field(in, tag, field, bytes));
    }
    if (!in.ConsumedEntireMessage()) return malformed();
    return {};
  }

 private:
  static tl::unexpected<Error> malformed() {
    return fail(ErrorCode::kDataLoss, "message header: expected a protobuf message, it is damaged");
  }

  Status skip_field(google::protobuf::io::CodedInputStream& in, std::uint32_t tag,
                    const FieldDescriptor* field, std::span<const std::byte> bytes) {
    std::uint64_t number = 0;
    std::uint32_t length = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        if (!in.ReadVarint64(&number)) return malformed();
        return {};
      case WireFormatLite::WIRETYPE_FIXED64:
        if (!in.Skip(8)) return malformed();
        return {};
      case WireFormatLite::WIRETYPE_FIXED32:
        if (!in.Skip(4)) return malformed();
        return {};
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        if (!in.ReadVarint32(&length)) return malformed();
        break;
      default:  // groups: not in this schema
        return malformed();
    }
    const auto start = static_cast<std::size_t>(in.CurrentPosition());
    if (length > bytes.size() - start) return malformed();
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      PACELINE_RETURN_IF_ERROR(walk(bytes.subspan(start, length), *field->message_type()));
    }
    if (!in.Skip(static_cast<int>(length))) return malformed();
    return {};
  }

  std::uint64_t most_;
  std::uint64_t count_ = 0;
};

}  // namespace

Result<std::uint64_t> count_header_fields(std::span<const std::byte> bytes, std::uint64_t most) {
  FieldCounter counter(most);
  PACELINE_RETURN_IF_ERROR(counter.walk(bytes, *proto::Header::descriptor()));
  return counter.count();
}

}  // namespace paceline::wire
