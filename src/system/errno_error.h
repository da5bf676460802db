// What the system's error numbers mean here: one table for all who call it.
#pragma once

#include <cerrno>
#include <filesystem>

#include "base/error.h"

namespace paceline::system {

/// kNotFound, kAlreadyExists, kPermissionDenied and kResourceExhausted (a full disk, too many open
/// files) where the number says so, else kInternal.
ErrorCode code_of_errno(int number);

/// "PATH: cannot ACTION: REASON".
[[nodiscard]] tl::unexpected<Error> fail_errno(const std::filesystem::path& path,
                                               const char* action, int number = errno);

}  // namespace paceline::system
