#include "cli/package_cache.h"

#include <fmt/format.h>

#include <system_error>

#include "base/version.h"
#include "compiler/source_identity.h"
#include "shard/manifest.h"
#include "shard/sha256.h"
#include "system/user_directories.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyDigits = 16;

}  // namespace

Result<fs::path> default_package_cache() {
  const fs::path cache = system::user_directory("XDG_CACHE_HOME", ".cache");
  if (cache.is_absolute()) return cache / "paceline/packages";
  return fail(ErrorCode::kNotFound,
              "neither XDG_CACHE_HOME nor HOME is set; name one with --package-cache");
}

bool is_package(const fs::path& source) {
  std::error_code ignored;
  return fs::is_regular_file(source / shard::kManifestFile, ignored);
}

Result<fs::path> cached_package(const fs::path& cache, const fs::path& source,
                                const std::string& options) {
  std::error_code failed;
  fs::path real = fs::canonical(source, failed);
  if (failed) {
    return fail(ErrorCode::kNotFound, "{}: no such file or directory", source.string());
  }
  const std::string known_by = fmt::format("{}\n{}\n{}\n{}", kVersion, real.string(), options,
                                           compiler::source_identity(real));
  const std::string key = shard::to_hex(shard::sha256(known_by)).substr(0, kKeyDigits);
  const fs::path name = fs::is_directory(real, failed) ? real.filename() : real.stem();
  return cache / fmt::format("{}-{}", name.string(), key);
}

}  // namespace paceline::cli
