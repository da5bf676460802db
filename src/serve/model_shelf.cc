#include "serve/model_shelf.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "shard/package.h"

namespace paceline::serve {
namespace {

namespace fs = std::filesystem;

/// With links and ".." resolved as far as there is something; empty where that fails.
fs::path real_path(const fs::path& path) {
  std::error_code failed;
  fs::path real = fs::weakly_canonical(path, failed);
  return failed ? fs::path() : real;
}

bool is_below(const fs::path& path, const fs::path& directory) {
  const auto [of_directory, of_path] =
      std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return of_directory == directory.end() && of_path != path.end();
}

bool is_package(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / shard::kManifestFile, ignored);
}

}  // namespace

Result<const ModelSource*> ModelShelf::add(ModelSource source) {
  for (const std::string& name : source.names) {
    if (find(name) != nullptr) {
      return fail(ErrorCode::kAlreadyExists, "{}: two models have this name", name);
    }
  }
  if (sources_.size() >= kMaxModels) {
    return fail(ErrorCode::kOutOfRange, "a server knows {} models at most", kMaxModels);
  }
  sources_.push_back(std::make_unique<ModelSource>(std::move(source)));
  return sources_.back().get();
}

const ModelSource* ModelShelf::find(const std::string& name) const {
  for (const auto& source : sources_) {
    const auto& names = source->names;
    if (std::find(names.begin(), names.end(), name) != names.end()) return source.get();
  }
  return nullptr;
}

Result<fs::path> ModelShelf::locate(const fs::path& path) const {
  bool is_inside = false;
  for (const fs::path& directory : directories_) {
    const fs::path base = real_path(directory);
    const fs::path real = real_path(path.is_absolute() ? path : base / path);
    if (base.empty() || real.empty() || !is_below(real, base)) continue;
    is_inside = true;
    if (is_package(real)) return real;
  }
  if (is_inside) return fail(ErrorCode::kNotFound, "{}: is no package", path.string());
  return fail(ErrorCode::kPermissionDenied,
              "{}: is below none of the directories that the server was started with (--model-dir)",
              path.string());
}

Result<const ModelSource*> ModelShelf::find_or_add(const std::string& name,
                                                   const std::string& path) {
  const ModelSource* known = find(name);
  if (path.empty()) {
    if (known != nullptr) return known;
    auto found = locate(name);
    if (!found) {
      return fail(ErrorCode::kNotFound, "the server knows no model of this name");
    }
    return add({{name}, *std::move(found)});
  }
  if (known != nullptr && real_path(path) == real_path(known->package)) return known;
  PACELINE_ASSIGN_OR_RETURN(auto package, locate(path));
  if (known == nullptr) return add({{name}, std::move(package)});
  if (package == real_path(known->package)) return known;
  return fail(ErrorCode::kAlreadyExists, "is the name of another package");
}

}  // namespace paceline::serve
