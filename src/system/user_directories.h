// Where a user's files are, by the XDG base directory specification.
#pragma once

#include <filesystem>

namespace paceline::system {

/// The directory that the environment's `variable` names, e.g. XDG_CACHE_HOME, where it is absolute
/// (as the specification has it, a relative one counts as not set), else `in_home` below HOME.
/// Empty where HOME is not set either. Reads the environment: before other threads change it.
std::filesystem::path user_directory(const char* variable, const char* in_home);

}  // namespace paceline::system
