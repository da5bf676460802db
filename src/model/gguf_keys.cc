#include "model/gguf_keys.h"

namespace paceline::model {

Result<std::uint32_t> GgufKeys::size(std::string_view key, std::uint32_t most) const {
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t value, file_.unsigned_value(full(key)));
  if (value >= 1 && value <= most) return static_cast<std::uint32_t>(value);
  return wrong(key, value, fmt::format("1 to {}", most));
}

Result<std::uint32_t> GgufKeys::size_or(std::string_view key, std::uint32_t most,
                                        std::uint32_t otherwise) const {
  if (!has(key)) return otherwise;
  return size(key, most);
}

Result<std::uint32_t> GgufKeys::size_or_none(std::string_view key, std::uint32_t most) const {
  if (!has(key)) return 0;
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t value, file_.unsigned_value(full(key)));
  if (value <= most) return static_cast<std::uint32_t>(value);
  return wrong(key, value, fmt::format("0 to {}", most));
}

Result<float> GgufKeys::positive(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const float value, file_.float_value(full(key)));
  if (value > 0.0F) return value;
  return wrong(key, value, "more than 0");
}

Result<float> GgufKeys::positive_or(std::string_view key, float otherwise) const {
  if (!has(key)) return otherwise;
  return positive(key);
}

Result<float> GgufKeys::nonzero_or(std::string_view key, float otherwise) const {
  if (!has(key)) return otherwise;
  PACELINE_ASSIGN_OR_RETURN(const float value, file_.float_value(full(key)));
  if (value == 0.0F) return otherwise;
  return positive(key);
}

}  // namespace paceline::model
