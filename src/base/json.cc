#include "base/json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

namespace paceline {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxShown = 40;

std::string cut(std::string text) {
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

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
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return count();
    problem_ = fmt::format("has the key {} twice in one object", shown(Json(name)));
    return false;
  }
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
    keys_.emplace_back();
    if (keys_.size() <= max_depth_) return count();
    problem_ = fmt::format("is nested more than {} deep", max_depth_);
    return false;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  std::size_t values_left_;
  std::size_t max_values_;
  std::vector<std::unordered_set<std::string>> keys_;  ///< of each open container
  std::string problem_;
};

}  // namespace

std::optional<std::vector<std::int64_t>> json_integers(const nlohmann::json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const nlohmann::json& item : value) {
    if (!item.is_number_integer()) return std::nullopt;
    integers.push_back(item.get<std::int64_t>());
  }
  return integers;
}

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  return cut(value.dump(-1, ' ', true, Json::error_handler_t::replace));
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

}  // namespace paceline
