#include "shard/package.h"

#include <utility>
#include <vector>

#include "shard/data_file.h"
#include "shard/parallel.h"
#include "system/files.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;

Result<DataFile> open_with_length(const fs::path& path, std::uint64_t bytes) {
  PACELINE_ASSIGN_OR_RETURN(auto file, DataFile::open(path));
  if (file.size() == bytes) return file;
  return fail(ErrorCode::kDataLoss, "{}: has {} bytes, expected {} by {}", path.string(),
              file.size(), bytes, kManifestFile);
}

/// Hashes a whole file, copying it to `copy` where that is given.
Status check_file(const fs::path& path, const FileEntry& entry, const fs::path* copy,
                  const IsWanted& is_wanted = {}) {
  PACELINE_ASSIGN_OR_RETURN(const auto file, open_with_length(path, entry.bytes));
  std::optional<DataFile> target;
  if (copy != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(target, DataFile::create_sparse(*copy, entry.bytes));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto digest,
                            file.hash(0, entry.bytes, target ? &*target : nullptr, is_wanted));
  if (digest == entry.sha256) return {};
  return fail(ErrorCode::kDataLoss, "{}: is damaged: its SHA-256 is {}, expected {} by {}",
              path.string(), to_hex(digest), to_hex(entry.sha256), kManifestFile);
}

/// Hashes extent `index`, copying it to `copy` where that is given.
Status check_extent(const DataFile& weights, const Manifest& manifest, std::size_t index,
                    DataFile* copy) {
  const Extent& extent = manifest.extents[index];
  PACELINE_ASSIGN_OR_RETURN(const auto digest, weights.hash(extent.offset, extent.bytes, copy));
  if (digest == extent.sha256) return {};
  if (weights.has_hole(extent.offset, extent.bytes)) {
    return fail(ErrorCode::kNotFound,
                "{}: extent {} is missing: {} bytes at offset {} are not all in this package",
                weights.path().string(), index, extent.bytes, extent.offset);
  }
  return fail(ErrorCode::kDataLoss,
              "{}: extent {} is damaged: {} bytes at offset {} do not have the SHA-256 of {}",
              weights.path().string(), index, extent.bytes, extent.offset, kManifestFile);
}

Result<LayerRange> checked_range(const Manifest& manifest, std::optional<LayerRange> layers) {
  const LayerRange range = layers.value_or(manifest.all_layers());
  PACELINE_RETURN_IF_ERROR(manifest.check_range(range));
  return range;
}

}  // namespace

Result<Manifest> read_manifest(const fs::path& directory) {
  std::error_code code;
  if (!fs::is_directory(directory, code)) {
    return fail(ErrorCode::kNotFound, "{}: no such directory", directory.string());
  }
  const auto text = system::read_text_file(directory / kManifestFile, kMaxManifestBytes);
  if (!text && text.error().code() == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, "{}: is not a package: it has no {}", directory.string(),
                kManifestFile);
  }
  if (!text) return fail(text.error());
  auto manifest = parse_manifest(*text);
  if (!manifest) return fail(manifest.error().with_context(directory.string()));
  return manifest;
}

Status write_manifest(const fs::path& directory, Manifest* manifest) {
  const std::string text = to_json(*manifest);
  PACELINE_RETURN_IF_ERROR(system::write_file_atomically(directory / kManifestFile, text));
  manifest->digest = to_hex(sha256(text));
  return {};
}

Status check_lengths(const fs::path& directory, const Manifest& manifest) {
  for (const auto& [name, entry] : manifest.files) {
    PACELINE_RETURN_IF_ERROR(open_with_length(directory / name, entry.bytes));
  }
  PACELINE_RETURN_IF_ERROR(open_with_length(directory / kWeightsFile, manifest.weight_bytes));
  return {};
}

Status verify(const fs::path& directory, const Manifest& manifest, const VerifyOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const LayerRange range, checked_range(manifest, options.layers));
  PACELINE_RETURN_IF_ERROR(check_lengths(directory, manifest));
  PACELINE_ASSIGN_OR_RETURN(const auto weights,
                            open_with_length(directory / kWeightsFile, manifest.weight_bytes));

  const std::vector<std::size_t> extents = manifest.extents_of(range);
  const std::vector<std::pair<std::string, FileEntry>> files(manifest.files.begin(),
                                                             manifest.files.end());
  std::uint64_t total = 0;
  for (const auto& [name, entry] : files) total += entry.bytes;
  for (const std::size_t index : extents) total += manifest.extents[index].bytes;

  ProgressSum progress(options.progress, total);
  const auto check = [&](std::size_t i) -> Status {
    if (options.is_wanted && !options.is_wanted()) {
      return fail(ErrorCode::kCancelled, "{}: verifying was interrupted", directory.string());
    }
    if (i < files.size()) {
      const auto& [name, entry] = files[i];
      PACELINE_RETURN_IF_ERROR(check_file(directory / name, entry, nullptr, options.is_wanted));
      progress.add(entry.bytes);
      return {};
    }
    const std::size_t index = extents[i - files.size()];
    PACELINE_RETURN_IF_ERROR(check_extent(weights, manifest, index, nullptr));
    progress.add(manifest.extents[index].bytes);
    return {};
  };
  return for_each_index(files.size() + extents.size(), options.threads, check);
}

Status verify_file(const fs::path& directory, const Manifest& manifest, const std::string& name,
                   const IsWanted& is_wanted) {
  const auto file = manifest.files.find(name);
  if (file == manifest.files.end()) {
    return fail(ErrorCode::kNotFound, "{}: is not of this package", (directory / name).string());
  }
  return check_file(directory / name, file->second, nullptr, is_wanted);
}

Status verify_extent(const fs::path& directory, const Manifest& manifest, std::size_t index) {
  PACELINE_ASSIGN_OR_RETURN(const auto weights,
                            open_with_length(directory / kWeightsFile, manifest.weight_bytes));
  return check_extent(weights, manifest, index, nullptr);
}

Status copy_range(const fs::path& source, const fs::path& target, LayerRange range) {
  PACELINE_ASSIGN_OR_RETURN(const auto manifest, read_manifest(source));
  PACELINE_RETURN_IF_ERROR(manifest.check_range(range));
  PACELINE_RETURN_IF_ERROR(check_lengths(source, manifest));
  PACELINE_ASSIGN_OR_RETURN(auto made, system::AtomicDirectory::create(target));
  for (const auto& [name, entry] : manifest.files) {
    const fs::path copy = made.path() / name;
    PACELINE_RETURN_IF_ERROR(check_file(source / name, entry, &copy));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto weights,
                            open_with_length(source / kWeightsFile, manifest.weight_bytes));
  PACELINE_ASSIGN_OR_RETURN(
      auto sparse, DataFile::create_sparse(made.path() / kWeightsFile, manifest.weight_bytes));
  for (const std::size_t index : manifest.extents_of(range)) {
    PACELINE_RETURN_IF_ERROR(check_extent(weights, manifest, index, &sparse));
  }
  // The very bytes that were parsed, so that the digest stays.
  PACELINE_ASSIGN_OR_RETURN(const auto text,
                            system::read_text_file(source / kManifestFile, kMaxManifestBytes));
  if (to_hex(sha256(text)) != manifest.digest) {
    return fail(ErrorCode::kAborted, "{}: {} changed while it was copied", source.string(),
                kManifestFile);
  }
  PACELINE_RETURN_IF_ERROR(system::write_file_atomically(made.path() / kManifestFile, text));
  return made.commit();
}

}  // namespace paceline::shard
