#include "base/profile.h"

namespace paceline {

std::string_view to_string(Profile profile) {
  return profile == Profile::kFast ? "fast" : "exact";
}

std::optional<Profile> profile_from_string(std::string_view name) {
  if (name == "fast") return Profile::kFast;
  if (name == "exact") return Profile::kExact;
  return std::nullopt;
}

}  // namespace paceline
