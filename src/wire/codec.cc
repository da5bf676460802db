#include "wire/codec.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "wire/text.h"
#include "wire/validate.h"

namespace paceline::wire {
namespace {

std::vector<TensorDescription> describe(std::span<const Tensor> tensors) {
  std::vector<TensorDescription> descriptions;
  for (const Tensor& tensor : tensors) {
    descriptions.push_back({tensor.name, tensor.type, tensor.shape, tensor.data.size()});
  }
  return descriptions;
}

void clean_failure_text(Message& message, std::size_t most) {
  if (auto* fault = std::get_if<Fault>(&message)) {
    fault->message = clean_text(fault->message, most);
  } else if (auto* goodbye = std::get_if<Goodbye>(&message)) {
    goodbye->reason = clean_text(goodbye->reason, most);
  } else if (auto* result = std::get_if<StepResult>(&message)) {
    result->error_message = clean_text(result->error_message, most);
  }
}

}  // namespace

Result<EncodedFrame> encode(Frame frame, const Limits& limits) {
  clean_failure_text(frame.message, limits.message_bytes);
  const std::vector<TensorDescription> descriptions = describe(frame.tensors);
  PACELINE_RETURN_IF_ERROR(validate(frame.address, frame.message, descriptions, limits));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::byte> message,
                            encode_header(frame.message, descriptions));
  if (message.size() > limits.header_bytes) {
    return fail(ErrorCode::kResourceExhausted, "header_bytes: {}, at most {}", message.size(),
                limits.header_bytes);
  }
  FrameHeader header;
  header.kind = kind_of(frame.message);
  header.version = version_of(header.kind);
  header.address = frame.address;
  header.header_bytes = static_cast<std::uint32_t>(message.size());
  EncodedFrame encoded;
  for (Tensor& tensor : frame.tensors) {
    header.payload_bytes += tensor.data.size();
    encoded.payload.push_back(std::move(tensor.data));
  }
  const auto fixed = pack(header);
  encoded.head.reserve(fixed.size() + message.size());
  encoded.head.insert(encoded.head.end(), fixed.begin(), fixed.end());
  encoded.head.insert(encoded.head.end(), message.begin(), message.end());
  encoded.size_bytes = encoded.head.size() + header.payload_bytes;
  return encoded;
}

std::vector<std::byte> flatten(const EncodedFrame& encoded) {
  std::vector<std::byte> bytes = encoded.head;
  bytes.reserve(encoded.size_bytes);
  for (const SharedBytes& part : encoded.payload) {
    bytes.insert(bytes.end(), part.bytes().begin(), part.bytes().end());
  }
  return bytes;
}

FrameDecoder::FrameDecoder(Limits limits, FirstFrame first)
    : limits_(limits), expects_handshake_(first == FirstFrame::kHandshake) {}

std::span<std::byte> FrameDecoder::next_span() {
  if (error_) return {};
  if (part_ == Part::kFixed) return std::span<std::byte>(fixed_).subspan(filled_);
  const std::span<std::byte> room =
      part_ == Part::kHeader ? header_bytes_.tail() : tensor_bytes_.tail();
  if (room.empty()) {
    error_ = Error(ErrorCode::kResourceExhausted,
                   fmt::format("no memory for a frame of {} + {} bytes", header_.header_bytes,
                               header_.payload_bytes));
  }
  return room;
}

Result<std::optional<Frame>> FrameDecoder::advance(std::size_t count) {
  if (error_) return fail(*error_);
  switch (part_) {
    case Part::kFixed:
      PACELINE_CHECK(count <= fixed_.size() - filled_);
      filled_ += count;
      if (filled_ < fixed_.size()) return std::nullopt;
      break;
    case Part::kHeader:
      header_bytes_.add_filled(count);
      if (!header_bytes_.is_full()) return std::nullopt;
      break;
    case Part::kPayload:
      tensor_bytes_.add_filled(count);
      if (!tensor_bytes_.is_full()) return std::nullopt;
      break;
  }
  auto frame = finish_part();
  if (!frame) error_ = frame.error();
  return frame;
}

Status FrameDecoder::feed(std::span<const std::byte> bytes, std::vector<Frame>& frames) {
  if (error_) return fail(*error_);
  while (!bytes.empty()) {
    const std::span<std::byte> room = next_span();
    if (room.empty()) return fail(*error_);
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    PACELINE_ASSIGN_OR_RETURN(auto frame, advance(count));
    if (frame) frames.push_back(std::move(*frame));
  }
  return {};
}

/// A part of no bytes is complete at once, so one call may pass several parts.
Result<std::optional<Frame>> FrameDecoder::finish_part() {
  if (part_ == Part::kFixed) {
    PACELINE_RETURN_IF_ERROR(finish_fixed());
    if (!header_bytes_.is_full()) return std::nullopt;
  }
  if (part_ == Part::kHeader) {
    PACELINE_RETURN_IF_ERROR(finish_header());
    if (!message_.tensors.empty()) tensor_bytes_.reset(message_.tensors[0].bytes);
  }
  return finish_tensors();
}

Status FrameDecoder::finish_fixed() {
  PACELINE_ASSIGN_OR_RETURN(header_, unpack(fixed_));
  PACELINE_RETURN_IF_ERROR(check_lengths(header_, limits_, expects_handshake_));
  header_bytes_.reset(header_.header_bytes);
  part_ = Part::kHeader;
  return {};
}

Status FrameDecoder::finish_header() {
  PACELINE_ASSIGN_OR_RETURN(message_, decode_header(header_.kind, header_bytes_.bytes(), limits_));
  PACELINE_RETURN_IF_ERROR(validate(header_.address, message_.message, message_.tensors, limits_));
  std::uint64_t total = 0;
  for (const TensorDescription& tensor : message_.tensors) total += tensor.bytes;
  if (total != header_.payload_bytes) {
    return fail(ErrorCode::kInvalidArgument, "payload_bytes: {}, but the tensors have {}",
                header_.payload_bytes, total);
  }
  tensors_.clear();
  part_ = Part::kPayload;
  return {};
}

std::optional<Frame> FrameDecoder::finish_tensors() {
  while (tensors_.size() < message_.tensors.size() && tensor_bytes_.is_full()) {
    TensorDescription& description = message_.tensors[tensors_.size()];
    tensors_.push_back({std::move(description.name), description.type, std::move(description.shape),
                        tensor_bytes_.release()});
    if (tensors_.size() < message_.tensors.size()) {
      tensor_bytes_.reset(message_.tensors[tensors_.size()].bytes);
    }
  }
  if (tensors_.size() < message_.tensors.size()) return std::nullopt;
  expects_handshake_ = false;
  part_ = Part::kFixed;
  filled_ = 0;
  Frame frame{header_.address, std::move(message_.message), std::move(tensors_)};
  message_ = {};
  tensors_ = {};
  return frame;
}

}  // namespace paceline::wire
