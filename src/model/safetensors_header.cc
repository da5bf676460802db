#include "model/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/checked_math.h"
#include "model/foreign_text.h"

namespace paceline::model {
namespace {

constexpr std::size_t kMaxDimensions = 8;
constexpr std::size_t kMaxNameBytes = 1024;

struct TypeName {
  std::string_view name;
  TensorType type;
};
constexpr std::array<TypeName, 4> kTypes = {{{"F32", TensorType::kF32},
                                             {"F16", TensorType::kF16},
                                             {"BF16", TensorType::kBF16},
                                             {"F8_E4M3", TensorType::kF8_E4M3}}};

/// A tensor as the header says it.
struct Entry {
  TensorInfo info;
  std::vector<std::uint64_t> offsets;  ///< begin and end in the data behind the header
  bool has_type = false;
  bool has_shape = false;
  bool has_offsets = false;
};

/// Takes the JSON as it is parsed: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets":
/// [0, 24]}, ..., "__metadata__": {"KEY": "TEXT", ...}}.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }
  bool number_integer(number_integer_t value) override {
    return unexpected(fmt::format("{}", value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return unexpected(fmt::format("{}", value));
  }
  bool binary(binary_t&) override { return unexpected("bytes"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kNumbers) return unexpected(fmt::format("{}", value));
    if (numbers_->size() >= kMaxDimensions) {
      return refuse("has more than {} numbers in its {}", kMaxDimensions, field_);
    }
    numbers_->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != "dtype") return unexpected(in_quotes(value));
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                     [&](const TypeName& row) { return row.name == value; });
    if (found == kTypes.end()) {
      error_ =
          Error(ErrorCode::kUnimplemented,
                fmt::format("tensor {}: has the type {}, expected one of F32, F16, BF16, F8_E4M3",
                            in_quotes(entry_.info.name), in_quotes(value)));
      return false;
    }
    entry_.info.type = found->type;
    entry_.has_type = true;
    return true;
  }
  bool key(string_t& name) override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") return unexpected("an array");
    place_ = Place::kNumbers;
    numbers_ = field_ == "shape" ? &entry_.info.shape : &entry_.offsets;
    (field_ == "shape" ? entry_.has_shape : entry_.has_offsets) = true;
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = Error(ErrorCode::kDataLoss,
                   fmt::format("header: is not JSON: syntax error at byte {}", position));
    return false;
  }

  const Error& error() const { return error_; }
  std::vector<Entry>& entries() { return entries_; }

 private:
  enum class Place { kStart, kTable, kTensor, kNumbers, kMetadata, kEnd };

  template <typename... Args>
  bool refuse(fmt::format_string<Args...> format, Args&&... args) {
    error_ =
        Error(ErrorCode::kDataLoss, fmt::format("tensor {}: {}", in_quotes(entry_.info.name),
                                                fmt::format(format, std::forward<Args>(args)...)));
    return false;
  }
  bool unexpected(std::string_view what) {
    if (place_ == Place::kTensor || place_ == Place::kNumbers) {
      return refuse("has {} as its {}, expected {}", what, field_,
                    field_ == "dtype" ? "a string" : "an array of integers, none negative");
    }
    const bool in_metadata = place_ == Place::kMetadata;
    error_ = Error(ErrorCode::kDataLoss,
                   fmt::format("header: has {} {}, expected {}", what,
                               in_metadata ? "in its metadata" : "where a tensor is expected",
                               in_metadata ? "strings" : "an object"));
    return false;
  }

  Place place_ = Place::kStart;
  std::string field_;
  Entry entry_;
  std::vector<std::uint64_t>* numbers_ = nullptr;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  Error error_{ErrorCode::kDataLoss, "header: is no table of tensors"};
};

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::kMetadata) return true;
  if (place_ == Place::kTable) {
    entry_ = Entry();
    entry_.info.name = name;
    if (name.empty() || name.size() > kMaxNameBytes) {
      return refuse("has a name of {} bytes, expected 1 to {}", name.size(), kMaxNameBytes);
    }
    if (!names_.insert(name).second) return refuse("is there twice, expected once");
    return true;
  }
  const bool again = (name == "dtype" && entry_.has_type) ||
                     (name == "shape" && entry_.has_shape) ||
                     (name == "data_offsets" && entry_.has_offsets);
  if (again) return refuse("has its {} twice, expected once", name);
  if (name != "dtype" && name != "shape" && name != "data_offsets") {
    return refuse("has the field {}, expected dtype, shape and data_offsets", in_quotes(name));
  }
  field_ = name;
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  switch (place_) {
    case Place::kStart:
      place_ = Place::kTable;
      return true;
    case Place::kTable:
      place_ = entry_.info.name == "__metadata__" ? Place::kMetadata : Place::kTensor;
      return true;
    default:
      return unexpected("an object");
  }
}

bool HeaderReader::end_object() {
  if (place_ == Place::kTable) {
    place_ = Place::kEnd;
    return true;
  }
  if (place_ == Place::kTensor) {
    const auto missing = [&](bool there, std::string_view field) {
      return there || refuse("has no {}", field);
    };
    if (!missing(entry_.has_type, "dtype") || !missing(entry_.has_shape, "shape") ||
        !missing(entry_.has_offsets, "data_offsets")) {
      return false;
    }
    entries_.push_back(std::move(entry_));
  }
  place_ = Place::kTable;
  return true;
}

/// Holds the offsets against shape and type.
Status check_entry(Entry& entry) {
  TensorInfo& info = entry.info;
  const std::string field = "tensor " + in_quotes(info.name);
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1]) {
    return fail(ErrorCode::kDataLoss, "{}: has the data_offsets [{}], expected a begin and an end",
                field, fmt::join(entry.offsets, ", "));
  }
  for (const std::uint64_t dimension : info.shape) {
    if (dimension >= 1 && dimension <= INT64_MAX) continue;
    return fail(ErrorCode::kDataLoss, "{}: has a dimension of {}, expected 1 to 2^63-1", field,
                dimension);
  }
  const auto elements = checked_product(info.shape);
  const auto bytes = elements ? checked_multiply(*elements, block_bytes(info.type)) : std::nullopt;
  info.size_bytes = entry.offsets[1] - entry.offsets[0];
  if (!bytes || *bytes != info.size_bytes) {
    return fail(ErrorCode::kDataLoss,
                "{}: its data_offsets [{}] hold {} bytes, not what its shape [{}] of {} takes",
                field, fmt::join(entry.offsets, ", "), info.size_bytes, fmt::join(info.shape, ", "),
                to_string(info.type));
  }
  if (info.shape.empty()) info.shape = {1};
  return {};
}

}  // namespace

Result<std::uint64_t> safetensors_header_bytes(std::uint64_t length, std::uint64_t file_bytes) {
  const std::uint64_t room =
      file_bytes < kSafetensorsPrefixBytes ? 0 : file_bytes - kSafetensorsPrefixBytes;
  if (length >= 2 && length <= std::min(room, kMaxSafetensorsHeaderBytes)) return length;
  return fail(ErrorCode::kDataLoss,
              "header: has a length of {} bytes, expected 2 to {} (the file has {} bytes)", length,
              std::min(room, kMaxSafetensorsHeaderBytes), file_bytes);
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                   std::uint64_t file_bytes) {
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text, &reader)) return fail(reader.error());
  std::vector<Entry>& entries = reader.entries();
  for (Entry& entry : entries) PACELINE_RETURN_IF_ERROR(check_entry(entry));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  const std::uint64_t begin = kSafetensorsPrefixBytes + text.size();
  const std::uint64_t data_bytes = file_bytes - begin;
  SafetensorsHeader header;
  std::uint64_t end = 0;
  for (Entry& entry : entries) {
    if (entry.offsets[0] != end || entry.offsets[1] > data_bytes) {
      return fail(ErrorCode::kDataLoss,
                  "tensor {}: lies at [{}] of the file's {} data bytes, expected to begin at {}",
                  in_quotes(entry.info.name), fmt::join(entry.offsets, ", "), data_bytes, end);
    }
    end = entry.offsets[1];
    header.offsets.push_back(begin + entry.offsets[0]);
    header.tensors.push_back(std::move(entry.info));
  }
  if (end != data_bytes) {
    return fail(ErrorCode::kDataLoss, "header: its tensors end at {} of the file's {} data bytes",
                end, data_bytes);
  }
  return header;
}

}  // namespace paceline::model
