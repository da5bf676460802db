// Look-ups in a configuration's JSON object, whose errors name the file and the field.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::model {

/// Views an object that must outlive it, and one of defaults: what is assumed of fields that the
/// first is silent about. A null in the first is an answer ("none"), not silence.
/// Errors are kInvalidArgument: "FILE: field "PATH": is missing, expected WHAT".
class ConfigFields {
 public:
  ConfigFields(std::string file, const nlohmann::json* object,
               const nlohmann::json* defaults = nullptr)
      : file_(std::move(file)), object_(object), defaults_(defaults) {}

  /// Sets the defaults.
  void assume(const nlohmann::json* defaults) { defaults_ = defaults; }

  const std::string& file() const { return file_; }
  /// The field, from the object or the defaults, where there is one that is not null; else null.
  const nlohmann::json* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Whether the object or the defaults have the field, be it null.
  bool says(std::string_view name) const;
  /// Whether the object itself has the field, not null.
  bool gives(std::string_view name) const;

  Result<std::uint32_t> size(std::string_view name, std::uint32_t most) const;  ///< 1 to `most`
  Result<std::uint32_t> size_or(std::string_view name, std::uint32_t most,
                                std::uint32_t otherwise) const;
  Result<float> positive(std::string_view name) const;  ///< finite
  Result<float> positive_or(std::string_view name, float otherwise) const;
  Result<bool> flag_or(std::string_view name, bool otherwise) const;
  Result<std::string> text(std::string_view name) const;
  /// Positive finite numbers.
  Result<std::vector<float>> positives(std::string_view name) const;
  Result<std::vector<std::string>> texts(std::string_view name) const;
  /// Integers of 0 to `most`; a number alone is a list of one.
  Result<std::vector<std::int64_t>> integers(std::string_view name, std::int64_t most) const;
  /// A field that is an object itself; without defaults.
  Result<ConfigFields> object(std::string_view name) const;

  /// "FILE: field "PATH": is VALUE (or: is missing), expected WHAT".
  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view name, std::string_view expected,
                                            ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  std::string file_;
  std::string path_;  ///< of the object in the document, "" or "NAME."
  const nlohmann::json* object_;
  const nlohmann::json* defaults_;
};

}  // namespace paceline::model
