// The directory that a fetch fills: whose it is, its lock, and its end. Internal to src/shard.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "shard/manifest.h"

namespace paceline::shard {

/// Lifecycle: open -> (filled by its user) -> finish(), or the destructor, which keeps what is
/// there for a later fetch unless discard_if_new() was called. Move-only, thread-compatible.
class FetchDirectory {
 public:
  /// Makes or takes over `path` for the package with this manifest, whose text is `manifest_text`,
  /// and locks it. kAlreadyExists where it holds something else or another process fills it,
  /// kFailedPrecondition where it belongs to a package of another digest.
  static Result<FetchDirectory> open(const std::filesystem::path& path, const Manifest& manifest,
                                     std::string_view manifest_text);
  FetchDirectory(FetchDirectory&& other) noexcept;
  FetchDirectory& operator=(FetchDirectory&&) = delete;
  ~FetchDirectory();

  const std::filesystem::path& path() const { return path_; }

  /// Nothing was fetched: removes what open() made.
  void discard_if_new();
  /// Everything is there and synced: writes the manifest, if it is not there, and lets go.
  Status finish(std::string_view manifest_text);

 private:
  explicit FetchDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  Status make();
  Status check_owner(const Manifest& manifest) const;
  Status lock();
  Status write_marker(std::string_view manifest_text) const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< directories, the innermost last
  bool is_new_ = false;                      ///< had no marker and no manifest
  int lock_ = -1;                            ///< descriptor of the marker
};

}  // namespace paceline::shard
