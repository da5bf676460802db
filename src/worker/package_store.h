// The packages that a worker may serve: directories named at its start, found by digest.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "shard/manifest.h"

namespace paceline::worker {

struct StoredPackage {
  std::filesystem::path directory;
  shard::Manifest manifest;
};

/// Immutable; thread-safe.
class PackageStore {
 public:
  /// Each path is a package, or a directory whose subdirectories with a manifest are packages.
  /// kNotFound where a path has neither.
  static Result<PackageStore> open(const std::vector<std::filesystem::path>& paths);

  const std::vector<StoredPackage>& packages() const { return packages_; }
  /// kNotFound says what this worker has instead.
  Result<const StoredPackage*> find(std::string_view digest) const;

 private:
  std::vector<StoredPackage> packages_;
};

}  // namespace paceline::worker
