#include "model/gguf.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "model/byte_cursor.h"
#include "model/foreign_text.h"
#include "model/gguf_split.h"

namespace paceline::model {
namespace {

constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitNumber = "split.no";
constexpr const char* kSplitTensors = "split.tensors.count";

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

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  std::unique_ptr<GgufFile> file(new GgufFile(path.string()));
  PACELINE_RETURN_IF_ERROR(file->add_file(path));
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t count, file->part_count());
  if (count > 1) {
    file.reset(new GgufFile(path.string()));
    PACELINE_RETURN_IF_ERROR(file->add_all_parts(path, count));
  }
  PACELINE_RETURN_IF_ERROR(file->make_index());
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::from_memory(std::string name,
                                                        std::vector<std::byte> bytes) {
  std::unique_ptr<GgufFile> file(new GgufFile(std::move(name)));
  PACELINE_RETURN_IF_ERROR(file->add_part(file->name_, {std::move(bytes), std::nullopt, {}}));
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t count, file->part_count());
  if (count > 1) {
    return fail(ErrorCode::kUnimplemented, "{}: metadata {}: is {}, expected 1 in memory",
                file->name_, in_quotes(kSplitCount), count);
  }
  PACELINE_RETURN_IF_ERROR(file->make_index());
  return file;
}

Status GgufFile::add_file(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(auto mapped, system::MappedFile::open(path));
  PACELINE_ASSIGN_OR_RETURN(auto input, system::InputFile::open(path));
  return add_part(path.string(), {std::move(mapped), std::move(input), {}});
}

Status GgufFile::add_part(const std::string& name, Part part) {
  part.file = view(part.storage);  // moves with the storage
  auto contents = parse_gguf(part.file);
  if (!contents) return fail(contents.error().with_context(name));
  for (std::size_t i = 0; i < contents->tensors.size(); ++i) {
    places_.push_back({parts_.size(), contents->tensor_offsets[i]});
    tensors_.push_back(std::move(contents->tensors[i]));
  }
  values_ = std::move(contents->values);
  parts_.push_back(std::move(part));
  return {};
}

Result<std::uint64_t> GgufFile::part_count() const {
  if (!has(kSplitCount)) return 1;
  return unsigned_value(kSplitCount);
}

Status GgufFile::add_all_parts(const std::filesystem::path& path, std::uint64_t count) {
  const auto name = parse_gguf_part_name(path);
  if (!name || name->count != count) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: metadata {}: is {}, expected a file name like MODEL-00001-of-{:05}.gguf",
                name_, in_quotes(kSplitCount), count, count);
  }
  GgufValues first;
  for (std::uint32_t i = 0; i < name->count; ++i) {
    const auto part_path = name->path_of(i);
    if (auto added = add_file(part_path); !added) {
      return fail(added.error().with_context(fmt::format("part {} of {}", i + 1, count)));
    }
    // Its own metadata stands in for the whole's until the first part's is put back.
    const auto number = unsigned_value(kSplitNumber);
    const auto of = unsigned_value(kSplitCount);
    if (!number || *number != i || !of || *of != count) {
      return fail(ErrorCode::kDataLoss,
                  "{}: metadata {} and {}: are missing or others, expected {} and {}",
                  part_path.string(), in_quotes(kSplitNumber), in_quotes(kSplitCount), i, count);
    }
    if (i == 0) first = std::move(values_);
  }
  values_ = std::move(first);
  if (!has(kSplitTensors)) return {};
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t tensors, unsigned_value(kSplitTensors));
  if (tensors == tensors_.size()) return {};
  return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected the {} tensors of all parts",
              name_, in_quotes(kSplitTensors), tensors, tensors_.size());
}

Status GgufFile::make_index() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (index_.emplace(tensors_[i].name, i).second) continue;
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: is in two parts, expected once", name_,
                in_quotes(tensors_[i].name));
  }
  return {};
}

const GgufFile::Place& GgufFile::place(const TensorInfo& tensor) const {
  const auto index = static_cast<std::size_t>(&tensor - tensors_.data());
  PACELINE_CHECK(index < tensors_.size());
  return places_[index];
}

Status GgufFile::read(const TensorInfo& tensor, std::uint64_t offset,
                      std::span<std::byte> into) const {
  PACELINE_CHECK(offset <= tensor.size_bytes && into.size() <= tensor.size_bytes - offset);
  const Place& at = place(tensor);
  const Part& part = parts_[at.part];
  if (part.input) return part.input->read(at.offset + offset, into);
  if (!into.empty()) std::memcpy(into.data(), part.file.data() + at.offset + offset, into.size());
  return {};
}

Result<const TensorInfo*> GgufFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    return fail(ErrorCode::kNotFound, "{}: tensor {}: is missing", name_, in_quotes(name));
  }
  return &tensors_[found->second];
}

Result<const GgufValue*> GgufFile::value(std::string_view key, std::string_view expected) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
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

Result<std::vector<bool>> GgufFile::bool_array(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const GgufValue* found, array(key, GgufType::kBool));
  std::vector<bool> result;
  for (const std::byte byte : found->bytes) result.push_back(byte != std::byte{0});
  return result;
}

bool GgufFile::is_array(std::string_view key) const {
  const auto found = values_.find(key);
  return found != values_.end() && found->second.type == GgufType::kArray;
}

}  // namespace paceline::model
