#include "base/error.h"

#include <array>

namespace paceline {
namespace {

constexpr std::array<std::string_view, 15> kNames = {
    "unknown",           "invalid_argument",    "not_found", "already_exists",
    "permission_denied", "resource_exhausted",  "failed_precondition",
    "aborted",           "out_of_range",        "unimplemented",
    "internal",          "unavailable",         "data_loss",
    "deadline_exceeded", "cancelled",
};

}  // namespace

std::string_view to_string(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

ErrorCode error_code_from_number(std::uint32_t number) {
  return number < kNames.size() ? static_cast<ErrorCode>(number) : ErrorCode::kUnknown;
}

Error Error::with_context(std::string_view context) const {
  return Error(code_, fmt::format("{}: {}", context, message_));
}

}  // namespace paceline
