#include "shard/json_field.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace paceline::shard {
namespace {

using Json = nlohmann::json;

/// Walks the text without building anything and stops where a limit is passed.
class LimitsCheck final : public nlohmann::json_sax<Json> {
 public:
  LimitsCheck(std::size_t max_depth, std::size_t max_values)
      : max_depth_(max_depth), values_left_(max_values), max_values_(max_values) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool key(string_t&) override { return count(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    problem_ = fmt::format("is not JSON: syntax error at byte {}", position);
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  bool count() {
    if (values_left_-- > 0) return true;
    problem_ = fmt::format("holds more than {} values", max_values_);
    return false;
  }
  bool open() {
    if (++depth_ <= max_depth_) return count();
    problem_ = fmt::format("is nested more than {} deep", max_depth_);
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::size_t max_depth_;
  std::size_t values_left_;
  std::size_t max_values_;
  std::size_t depth_ = 0;
  std::string problem_;
};

/// A value as an error message shows it: short, one line, valid UTF-8.
std::string shown(const Json& value) {
  constexpr std::size_t kMaxShown = 40;
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

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

Result<Json> parse_json(std::string_view text, std::size_t max_depth, std::size_t max_values) {
  LimitsCheck limits(max_depth, max_values);
  if (!Json::sax_parse(text, &limits)) {
    return fail(ErrorCode::kInvalidArgument, "{}", limits.problem());
  }
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return fail(ErrorCode::kInvalidArgument, "is not JSON");
  return document;
}

}  // namespace paceline::shard
