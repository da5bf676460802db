#include "model/gguf.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "model/byte_cursor.h"
#include "model/foreign_text.h"

namespace paceline::model {
namespace {

std::span<const std::byte> view(const std::variant<system::MappedFile, std::vector<std::byte>>& s) {
  if (const auto* mapped = std::get_if<system::MappedFile>(&s)) return mapped->bytes();
  return std::get<std::vector<std::byte>>(s);
}

/// The number that a scalar value holds; the parser has checked its size.
template <typename Number>
Number scalar(const GgufValue& value) {
  PACELINE_CHECK(value.bytes.size() == sizeof(Number));
  Number number;
  std::memcpy(&number, value.bytes.data(), sizeof(Number));
  return number;
}

/// An integer of any width, widened; false where the value is no integer or negative.
bool read_unsigned(const GgufValue& value, std::uint64_t& result) {
  const auto from_signed = [&](std::int64_t number) {
    result = static_cast<std::uint64_t>(number);
    return number >= 0;
  };
  switch (value.type) {
    case GgufType::kU8:
      result = scalar<std::uint8_t>(value);
      return true;
    case GgufType::kU16:
      result = scalar<std::uint16_t>(value);
      return true;
    case GgufType::kU32:
      result = scalar<std::uint32_t>(value);
      return true;
    case GgufType::kU64:
      result = scalar<std::uint64_t>(value);
      return true;
    case GgufType::kI8:
      return from_signed(scalar<std::int8_t>(value));
    case GgufType::kI16:
      return from_signed(scalar<std::int16_t>(value));
    case GgufType::kI32:
      return from_signed(scalar<std::int32_t>(value));
    case GgufType::kI64:
      return from_signed(scalar<std::int64_t>(value));
    default:
      return false;
  }
}

template <typename Number>
std::vector<Number> numbers(const GgufValue& array) {
  std::vector<Number> result(array.bytes.size() / sizeof(Number));
  if (!result.empty()) std::memcpy(result.data(), array.bytes.data(), array.bytes.size());
  return result;
}

}  // namespace

GgufFile::GgufFile(std::string name, Storage storage)
    : name_(std::move(name)), storage_(std::move(storage)), file_(view(storage_)) {}

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(auto mapped, system::MappedFile::open(path));
  PACELINE_ASSIGN_OR_RETURN(auto input, system::InputFile::open(path));
  PACELINE_ASSIGN_OR_RETURN(auto file, parse(path.string(), std::move(mapped)));
  file->input_ = std::move(input);
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::from_memory(std::string name,
                                                        std::vector<std::byte> bytes) {
  return parse(std::move(name), std::move(bytes));
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::string name, Storage storage) {
  std::unique_ptr<GgufFile> file(new GgufFile(std::move(name), std::move(storage)));
  auto contents = parse_gguf(file->file_);
  if (!contents) return fail(contents.error().with_context(file->name_));
  file->contents_ = std::move(*contents);
  for (std::size_t i = 0; i < file->contents_.tensors.size(); ++i) {
    file->index_.emplace(file->contents_.tensors[i].name, i);
  }
  return file;
}

std::size_t GgufFile::place(const TensorInfo& tensor) const {
  const auto index = static_cast<std::size_t>(&tensor - contents_.tensors.data());
  PACELINE_CHECK(index < contents_.tensors.size());
  return contents_.tensor_offsets[index];
}

std::span<const std::byte> GgufFile::bytes(const TensorInfo& tensor) const {
  return file_.subspan(place(tensor), tensor.size_bytes);
}

Status GgufFile::read(const TensorInfo& tensor, std::uint64_t offset,
                      std::span<std::byte> into) const {
  PACELINE_CHECK(offset <= tensor.size_bytes && into.size() <= tensor.size_bytes - offset);
  const std::uint64_t begin = place(tensor) + offset;
  if (input_) return input_->read(begin, into);
  if (!into.empty()) std::memcpy(into.data(), file_.data() + begin, into.size());
  return {};
}

Result<const TensorInfo*> GgufFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    return fail(ErrorCode::kNotFound, "{}: tensor {}: is missing", name_, in_quotes(name));
  }
  return &contents_.tensors[found->second];
}

Result<const GgufValue*> GgufFile::value(std::string_view key, std::string_view expected) const {
  const auto found = contents_.values.find(key);
  if (found == contents_.values.end()) {
    return fail(ErrorCode::kNotFound, "{}: metadata {}: is missing, expected {}", name_,
                in_quotes(key), expected);
  }
  return &found->second;
}

tl::unexpected<Error> GgufFile::wrong_type(std::string_view key, const GgufValue& value,
                                           std::string_view expected) const {
  const bool is_array = value.type == GgufType::kArray;
  return fail(ErrorCode::kDataLoss, "{}: metadata {}: is of type {}{}, expected {}", name_,
              in_quotes(key), is_array ? "array of " : "",
              to_string(is_array ? value.element_type : value.type), expected);
}

Result<const GgufValue*> GgufFile::array(std::string_view key, GgufType element_type) const {
  const std::string expected = fmt::format("an array of {}", to_string(element_type));
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, value(key, expected));
  if (found->type != GgufType::kArray || found->element_type != element_type) {
    return wrong_type(key, *found, expected);
  }
  return found;
}

Result<std::uint64_t> GgufFile::unsigned_value(std::string_view key) const {
  constexpr std::string_view kExpected = "an integer, not negative";
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, value(key, kExpected));
  std::uint64_t result = 0;
  if (!read_unsigned(*found, result)) return wrong_type(key, *found, kExpected);
  return result;
}

Result<float> GgufFile::float_value(std::string_view key) const {
  constexpr std::string_view kExpected = "a finite f32";
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, value(key, kExpected));
  if (found->type != GgufType::kF32 && found->type != GgufType::kF64) {
    return wrong_type(key, *found, kExpected);
  }
  const double number =
      found->type == GgufType::kF32 ? scalar<float>(*found) : scalar<double>(*found);
  if (!(std::abs(number) <= 3.4e38)) {
    return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected {}", name_, in_quotes(key),
                number, kExpected);
  }
  return static_cast<float>(number);
}

Result<bool> GgufFile::bool_value(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, value(key, "a bool"));
  if (found->type != GgufType::kBool) return wrong_type(key, *found, "a bool");
  const auto number = scalar<std::uint8_t>(*found);
  if (number > 1) {
    return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected a bool of 0 or 1", name_,
                in_quotes(key), number);
  }
  return number == 1;
}

Result<std::string> GgufFile::string_value(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, value(key, "a string"));
  if (found->type != GgufType::kString) return wrong_type(key, *found, "a string");
  return ByteCursor(found->bytes).string(key).map([](auto text) { return std::string(text); });
}

Result<std::vector<std::string>> GgufFile::string_array(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, array(key, GgufType::kString));
  ByteCursor cursor(found->bytes);
  std::vector<std::string> result;
  result.reserve(found->count);  // the parser has walked over that many
  for (std::uint64_t i = 0; i < found->count; ++i) {
    PACELINE_ASSIGN_OR_RETURN(const auto text, cursor.string(key));
    result.emplace_back(text);
  }
  return result;
}

Result<std::vector<float>> GgufFile::float_array(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, array(key, GgufType::kF32));
  return numbers<float>(*found);
}

Result<std::vector<std::int32_t>> GgufFile::int_array(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, value(key, "an array of i32"));
  if (found->type != GgufType::kArray ||
      (found->element_type != GgufType::kI32 && found->element_type != GgufType::kU32)) {
    return wrong_type(key, *found, "an array of i32");
  }
  return numbers<std::int32_t>(*found);
}

}  // namespace paceline::model
