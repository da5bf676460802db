// Which packages a server may load, by the names that requests use.
//
// A route that loads any path would tell every client what lies on the disk, and let it fill the
// memory: so it is only those that the operator named, or that lie below a directory he named.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace paceline::serve {

struct ModelSource {
  std::vector<std::string> names;  ///< the first is its own, by which it is counted
  std::filesystem::path package;

  const std::string& name() const { return names.front(); }
};

/// Thread-compatible.
class ModelShelf {
 public:
  /// Names are kept for ever (metrics count by them), so there are at most this many.
  static constexpr std::size_t kMaxModels = 64;

  explicit ModelShelf(std::vector<std::filesystem::path> directories = {})
      : directories_(std::move(directories)) {}

  /// By the operator: anywhere. kAlreadyExists where a name is taken.
  Result<const ModelSource*> add(ModelSource source);
  /// nullptr: none of that name.
  const ModelSource* find(const std::string& name) const;
  /// The one of that name; else the package at `path` (relative: below one of the directories), or
  /// where that is empty, at NAME there, which is then known by `name`. kNotFound,
  /// kPermissionDenied (outside the directories, whether there is something or not), kAlreadyExists
  /// (the name is another package's), kOutOfRange (kMaxModels). Pointers last as long as the shelf.
  Result<const ModelSource*> find_or_add(const std::string& name, const std::string& path);

  const std::vector<std::unique_ptr<ModelSource>>& sources() const { return sources_; }

 private:
  Result<std::filesystem::path> locate(const std::filesystem::path& path) const;

  std::vector<std::filesystem::path> directories_;
  std::vector<std::unique_ptr<ModelSource>> sources_;
};

}  // namespace paceline::serve
