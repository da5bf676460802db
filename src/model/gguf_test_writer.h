// Writes small GGUF files for tests: right by default, wrong where a test says so.
//
// Not part of the product. It writes what it is given, checks nothing, and keeps the whole file in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/gguf_parser.h"

namespace paceline::model {

class GgufTestWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  std::uint64_t extra_tensors = 0;  ///< added to the true count in the header
  std::uint64_t extra_values = 0;

  template <typename Number>
  static std::string raw(Number number) {
    std::string bytes(sizeof(Number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(Number));
    return bytes;
  }
  static std::string text(std::string_view value) {
    return raw<std::uint64_t>(value.size()) + std::string(value);
  }

  /// A value of any type from its bytes.
  GgufTestWriter& set_raw(std::string_view key, GgufType type, std::string_view bytes) {
    for (auto& [name, entry] : values_) {
      if (name == key) {
        entry = raw(static_cast<std::uint32_t>(type)) + std::string(bytes);
        return *this;
      }
    }
    return add_raw(key, type, bytes);
  }
  /// The same without looking for an earlier one, so that a key can stand twice.
  GgufTestWriter& add_raw(std::string_view key, GgufType type, std::string_view bytes) {
    values_.emplace_back(key, raw(static_cast<std::uint32_t>(type)) + std::string(bytes));
    return *this;
  }
  GgufTestWriter& set_u32(std::string_view key, std::uint32_t value) {
    return set_raw(key, GgufType::kU32, raw(value));
  }
  GgufTestWriter& set_f32(std::string_view key, float value) {
    return set_raw(key, GgufType::kF32, raw(value));
  }
  GgufTestWriter& set_bool(std::string_view key, bool value) {
    return set_raw(key, GgufType::kBool, raw<std::uint8_t>(value ? 1 : 0));
  }
  GgufTestWriter& set_string(std::string_view key, std::string_view value) {
    return set_raw(key, GgufType::kString, text(value));
  }
  GgufTestWriter& set_strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes =
        raw(static_cast<std::uint32_t>(GgufType::kString)) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += text(value);
    return set_raw(key, GgufType::kArray, bytes);
  }
  template <typename Number>
  GgufTestWriter& set_numbers(std::string_view key, GgufType type,
                              const std::vector<Number>& values) {
    std::string bytes = raw(static_cast<std::uint32_t>(type)) + raw<std::uint64_t>(values.size());
    for (const Number value : values) bytes += raw(value);
    return set_raw(key, GgufType::kArray, bytes);
  }
  GgufTestWriter& erase(std::string_view key) {
    std::erase_if(values_, [&](const auto& entry) { return entry.first == key; });
    return *this;
  }

  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;  ///< row-major
    std::uint32_t type = 0;            ///< ggml's number
    std::string bytes;
    std::int64_t offset_shift = 0;  ///< added to the true offset
  };
  GgufTestWriter& add(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
  }
  /// To change what was added.
  std::vector<Tensor>& tensors() { return tensors_; }

  std::vector<std::byte> finish() const {
    std::string file = "GGUF" + raw(version) + raw<std::uint64_t>(tensors_.size() + extra_tensors) +
                       raw<std::uint64_t>(values_.size() + extra_values);
    for (const auto& [key, value] : values_) file += text(key) + value;
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      file += text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto d = tensor.shape.rbegin(); d != tensor.shape.rend(); ++d) file += raw(*d);
      file += raw(tensor.type) + raw(offset + static_cast<std::uint64_t>(tensor.offset_shift));
      offset += padded(tensor.bytes.size());
    }
    file.resize(padded(file.size()));
    for (const Tensor& tensor : tensors_) {
      file += tensor.bytes;
      file.resize(padded(file.size()));
    }
    const auto* begin = reinterpret_cast<const std::byte*>(file.data());
    return {begin, begin + file.size()};
  }

 private:
  std::uint64_t padded(std::uint64_t size) const {
    return (size + alignment - 1) / alignment * alignment;
  }
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<Tensor> tensors_;
};

}  // namespace paceline::model
