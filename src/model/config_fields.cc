#include "model/config_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "model/foreign_text.h"

namespace paceline::model {
namespace {

using Json = nlohmann::json;

std::optional<float> positive_number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  const auto result = static_cast<float>(number);
  if (!(number > 0.0) || !std::isfinite(result) || result == 0.0F) return std::nullopt;
  return result;
}

}  // namespace

const Json* ConfigFields::find(std::string_view name) const {
  for (const Json* from : {object_, defaults_}) {
    if (from == nullptr) continue;
    const auto found = from->find(std::string(name));
    if (found == from->end()) continue;
    return found->is_null() ? nullptr : &*found;
  }
  return nullptr;
}

bool ConfigFields::says(std::string_view name) const {
  const std::string key(name);
  return object_->contains(key) || (defaults_ != nullptr && defaults_->contains(key));
}

bool ConfigFields::gives(std::string_view name) const {
  const auto found = object_->find(std::string(name));
  return found != object_->end() && !found->is_null();
}

tl::unexpected<Error> ConfigFields::wrong(std::string_view name, std::string_view expected,
                                          ErrorCode code) const {
  const Json* value = find(name);
  return fail(code, "{}: field {}: is {}, expected {}", file_, in_quotes(path_ + std::string(name)),
              value == nullptr ? "missing" : shown(*value), expected);
}

Result<std::uint32_t> ConfigFields::size(std::string_view name, std::uint32_t most) const {
  const Json* value = find(name);
  // The parser stores what is not negative as unsigned.
  if (value != nullptr && value->is_number_unsigned()) {
    const auto number = value->get<std::uint64_t>();
    if (number >= 1 && number <= most) return static_cast<std::uint32_t>(number);
  }
  return wrong(name, fmt::format("an integer of 1 to {}", most));
}

Result<std::uint32_t> ConfigFields::size_or(std::string_view name, std::uint32_t most,
                                            std::uint32_t otherwise) const {
  if (!has(name)) return otherwise;
  return size(name, most);
}

Result<float> ConfigFields::positive(std::string_view name) const {
  const Json* value = find(name);
  const auto number = value == nullptr ? std::nullopt : positive_number(*value);
  if (number) return *number;
  return wrong(name, "a number above 0");
}

Result<float> ConfigFields::positive_or(std::string_view name, float otherwise) const {
  if (!has(name)) return otherwise;
  return positive(name);
}

Result<bool> ConfigFields::flag_or(std::string_view name, bool otherwise) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  return wrong(name, "true or false");
}

Result<std::string> ConfigFields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  return wrong(name, "a string");
}

Result<std::vector<float>> ConfigFields::positives(std::string_view name) const {
  const Json* value = find(name);
  constexpr std::string_view kExpected = "an array of numbers above 0";
  if (value == nullptr || !value->is_array()) return wrong(name, kExpected);
  std::vector<float> result;
  for (const Json& item : *value) {
    const auto number = positive_number(item);
    if (!number) {
      return wrong(name,
                   fmt::format("{}, and item {} is {}", kExpected, result.size(), shown(item)));
    }
    result.push_back(*number);
  }
  return result;
}

Result<std::vector<std::string>> ConfigFields::texts(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_array()) return wrong(name, "an array of strings");
  std::vector<std::string> result;
  for (const Json& item : *value) {
    if (!item.is_string()) return wrong(name, "an array of strings");
    result.push_back(item.get<std::string>());
  }
  return result;
}

Result<std::vector<std::int64_t>> ConfigFields::integers(std::string_view name,
                                                         std::int64_t most) const {
  const Json* value = find(name);
  const auto refuse = [&] { return wrong(name, fmt::format("integers of 0 to {}", most)); };
  if (value == nullptr) return refuse();
  std::vector<std::int64_t> result;
  const auto add = [&](const Json& item) {
    if (!item.is_number_unsigned()) return false;
    const auto number = item.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(most)) return false;
    result.push_back(static_cast<std::int64_t>(number));
    return true;
  };
  if (!value->is_array()) {
    if (!add(*value)) return refuse();
    return result;
  }
  for (const Json& item : *value) {
    if (!add(item)) return refuse();
  }
  return result;
}

Result<ConfigFields> ConfigFields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_object()) return wrong(name, "an object");
  ConfigFields fields(file_, value);
  fields.path_ = path_ + std::string(name) + ".";
  return fields;
}

}  // namespace paceline::model
