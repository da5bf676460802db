#include "shard/json_field.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace paceline::shard {
namespace {

using Json = nlohmann::json;

}  // namespace

JsonField::JsonField(const Json* value, std::string path) : value_(value), path_(std::move(path)) {}

tl::unexpected<Error> JsonField::expected(std::string_view what) const {
  return fail(ErrorCode::kInvalidArgument, "{}: expected {}, got {}",
              path_.empty() ? "the document" : path_, what, shown(*value_));
}

Result<JsonField> JsonField::member(std::string_view name) const {
  if (!value_->is_object()) return expected("an object");
  const auto found = value_->find(std::string(name));
  std::string path = path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  if (found == value_->end()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected a value, got nothing (no such field)",
                path);
  }
  return JsonField(&*found, std::move(path));
}

Result<std::size_t> JsonField::array_size(std::size_t min, std::size_t max) const {
  if (value_->is_array() && value_->size() >= min && value_->size() <= max) return value_->size();
  return expected(min == max ? fmt::format("an array of {}", min)
                             : fmt::format("an array of {} to {}", min, max));
}

JsonField JsonField::item(std::size_t index) const {
  return JsonField(&(*value_)[index], fmt::format("{}[{}]", path_, index));
}

Result<std::uint64_t> JsonField::integer(std::uint64_t min, std::uint64_t max) const {
  // The parser stores what is not negative as unsigned.
  if (value_->is_number_unsigned()) {
    const auto number = value_->get<std::uint64_t>();
    if (number >= min && number <= max) return number;
  }
  return expected(fmt::format("an integer from {} to {}", min, max));
}

Result<std::string> JsonField::text(std::size_t max_bytes) const {
  if (value_->is_string()) {
    const auto& text = value_->get_ref<const std::string&>();
    if (text.size() <= max_bytes) return text;
  }
  return expected(fmt::format("a string of at most {} bytes", max_bytes));
}

}  // namespace paceline::shard
