#include "worker/package_store.h"

#include <algorithm>
#include <utility>

#include "shard/package.h"

namespace paceline::worker {
namespace {

namespace fs = std::filesystem;

/// The packages at or directly below `path`, sorted.
std::vector<fs::path> package_directories(const fs::path& path) {
  std::error_code code;
  if (fs::exists(path / shard::kManifestFile, code)) return {path};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    if (fs::exists(entry.path() / shard::kManifestFile, code)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<PackageStore> PackageStore::open(const std::vector<fs::path>& paths) {
  PackageStore store;
  for (const fs::path& path : paths) {
    const std::vector<fs::path> directories = package_directories(path);
    if (directories.empty()) {
      return fail(ErrorCode::kNotFound,
                  "{}: is no package (it has no {}), nor does it hold packages; make one with "
                  "paceline compile",
                  path.string(), shard::kManifestFile);
    }
    for (const fs::path& directory : directories) {
      PACELINE_ASSIGN_OR_RETURN(auto manifest, shard::read_manifest(directory));
      store.packages_.push_back({directory, std::move(manifest)});
    }
  }
  return store;
}

Result<const StoredPackage*> PackageStore::find(std::string_view digest) const {
  std::string held;
  for (const StoredPackage& package : packages_) {
    if (package.manifest.digest == digest) return &package;
    held += fmt::format("{}{} ({:.12})", held.empty() ? "" : ", ", package.directory.string(),
                        package.manifest.digest);
  }
  return fail(ErrorCode::kNotFound, "this worker has no package with digest {:.12}; it has {}",
              digest, held.empty() ? "none: start it with --package" : held);
}

}  // namespace paceline::worker
