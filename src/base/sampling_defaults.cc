#include "base/sampling_defaults.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace paceline {
namespace {

using Json = nlohmann::json;

struct NumberField {
  const char* name;
  std::optional<double> SamplingDefaults::*member;
  double low;
  bool low_is_allowed;
  double high;
};

// Within what sampling::check takes.
constexpr NumberField kTemperature = {"temperature", &SamplingDefaults::temperature, 0, true, 1000};
constexpr NumberField kOthers[] = {
    {"top_p", &SamplingDefaults::top_p, 0, false, 1},
    {"min_p", &SamplingDefaults::min_p, 0, true, 1},
    {"repetition_penalty", &SamplingDefaults::repetition_penalty, 0.01, true, 100},
};

/// Null where the object has nothing to say under a name.
const Json* find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

tl::unexpected<Error> wrong(const std::string& field, const std::string& expected,
                            const Json& value) {
  return fail(ErrorCode::kInvalidArgument, "{}: expected {}, got {}", field, expected,
              shown(value));
}

Status read_number(const Json& object, const std::string& prefix, const NumberField& field,
                   SamplingDefaults& defaults) {
  const Json* value = find(object, field.name);
  if (value == nullptr) return {};
  const double number = value->is_number() ? value->get<double>() : -1;
  const bool is_high_enough = field.low_is_allowed ? number >= field.low : number > field.low;
  if (value->is_number() && is_high_enough && number <= field.high) {
    defaults.*field.member = number;
    return {};
  }
  const char* range =
      field.low_is_allowed ? "a number from {} to {}" : "a number above {} and of at most {}";
  return wrong(prefix + field.name, fmt::format(fmt::runtime(range), field.low, field.high),
               *value);
}

Status read_flag(const Json& object, const std::string& prefix, SamplingDefaults& defaults) {
  const Json* value = find(object, "do_sample");
  if (value == nullptr) return {};
  if (!value->is_boolean()) return wrong(prefix + "do_sample", "true or false", *value);
  defaults.do_sample = value->get<bool>();
  return {};
}

Status read_top_k(const Json& object, const std::string& prefix, SamplingDefaults& defaults) {
  const Json* value = find(object, "top_k");
  if (value == nullptr) return {};
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() > UINT32_MAX) {
    return wrong(prefix + "top_k", fmt::format("an integer from 0 to {}", UINT32_MAX), *value);
  }
  defaults.top_k = value->get<std::uint32_t>();
  return {};
}

}  // namespace

Result<SamplingDefaults> read_sampling_defaults(const Json& object, const std::string& prefix) {
  SamplingDefaults defaults;
  PACELINE_RETURN_IF_ERROR(read_flag(object, prefix, defaults));
  PACELINE_RETURN_IF_ERROR(read_number(object, prefix, kTemperature, defaults));
  PACELINE_RETURN_IF_ERROR(read_top_k(object, prefix, defaults));
  for (const NumberField& field : kOthers) {
    PACELINE_RETURN_IF_ERROR(read_number(object, prefix, field, defaults));
  }
  return defaults;
}

nlohmann::ordered_json to_json(const SamplingDefaults& defaults) {
  auto json = nlohmann::ordered_json::object();
  const auto add = [&json](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  add("do_sample", defaults.do_sample);
  add(kTemperature.name, defaults.temperature);
  add("top_k", defaults.top_k);
  for (const NumberField& field : kOthers) add(field.name, defaults.*field.member);
  return json;
}

}  // namespace paceline
