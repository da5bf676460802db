#include "system/user_directories.h"

#include <cstdlib>

namespace paceline::system {

std::filesystem::path user_directory(const char* variable, const char* in_home) {
  const char* named = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before threads
  if (named != nullptr && std::filesystem::path(named).is_absolute()) return named;
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): before threads
  if (home == nullptr || *home == '\0') return {};
  return std::filesystem::path(home) / in_home;
}

}  // namespace paceline::system
