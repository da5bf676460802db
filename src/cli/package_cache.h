// Packages that `paceline run` has made of published models, by what they were made of.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace paceline::cli {

/// $XDG_CACHE_HOME/paceline/packages, else ~/.cache/paceline/packages; kNotFound where neither
/// variable is set.
Result<std::filesystem::path> default_package_cache();

/// Whether it is a package already.
bool is_package(const std::filesystem::path& source);

/// Where in `cache` the package of `source` is or will be. Another one as soon as a file of the
/// source, `options` or the program's version is another. kNotFound where there is no source.
Result<std::filesystem::path> cached_package(const std::filesystem::path& cache,
                                             const std::filesystem::path& source,
                                             const std::string& options);

}  // namespace paceline::cli
