#include "shard/build_manifest.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "base/version.h"
#include "shard/data_file.h"
#include "shard/parallel.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;

Status check_pieces(const std::vector<Piece>& pieces, std::uint64_t weight_bytes) {
  for (const Piece& piece : pieces) {
    const auto end = checked_add(piece.offset, piece.bytes);
    if (end && *end <= weight_bytes) continue;
    return fail(ErrorCode::kInvalidArgument,
                "{}: has {} bytes, but the graph reads {} bytes at offset {}", kWeightsFile,
                weight_bytes, piece.bytes, piece.offset);
  }
  return {};
}

/// Pieces sorted by offset, cut where another one begins or ends, with the readers of all that
/// cover them: a sweep over the boundaries with the list of pieces that are open.
std::vector<Piece> without_overlaps(std::vector<Piece> pieces) {
  std::erase_if(pieces, [](const Piece& p) { return p.bytes == 0 || p.parts.empty(); });
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  std::vector<std::uint64_t> boundaries;
  for (const Piece& piece : pieces) {
    boundaries.push_back(piece.offset);
    boundaries.push_back(piece.offset + piece.bytes);
  }
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());

  std::vector<Piece> disjoint;
  std::vector<const Piece*> open;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    const std::uint64_t begin = boundaries[i];
    std::erase_if(open, [begin](const Piece* p) { return p->offset + p->bytes <= begin; });
    while (next < pieces.size() && pieces[next].offset == begin) open.push_back(&pieces[next++]);
    if (open.empty()) continue;
    Piece piece = {begin, boundaries[i + 1] - begin, {}};
    for (const Piece* p : open) piece.parts.add(p->parts);
    disjoint.push_back(std::move(piece));
  }
  return disjoint;
}

std::vector<Piece> merged(const std::vector<Piece>& disjoint) {
  std::vector<Piece> result;
  for (const Piece& piece : disjoint) {
    if (!result.empty()) {
      Piece& last = result.back();
      const std::uint64_t gap = piece.offset - (last.offset + last.bytes);
      if (gap <= kMaxPaddingBytes && piece.parts == last.parts) {
        last.bytes += gap + piece.bytes;
        continue;
      }
    }
    result.push_back(piece);
  }
  return result;
}

/// Files of the directory that the manifest lists, without their hashes.
Result<std::vector<std::string>> list_files(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code code;
  fs::directory_iterator entries(directory, code);
  for (; !code && entries != fs::directory_iterator(); entries.increment(code)) {
    const std::string name = entries->path().filename().string();
    if (name.front() == '.' || name == kManifestFile || name == kWeightsFile) continue;
    if (name == std::string(kManifestFile) + ".partial") continue;
    std::error_code ignored;
    if (entries->is_regular_file(ignored)) names.push_back(name);
  }
  if (code) {
    return fail(ErrorCode::kNotFound, "{}: cannot list: {}", directory.string(), code.message());
  }
  return names;
}

/// Hashes all files that the manifest lists, then all extents.
Status hash_all(const fs::path& directory, const DataFile& weights, const BuildOptions& options,
                Manifest& manifest) {
  std::vector<std::pair<DataFile, FileEntry*>> files;
  std::uint64_t total = 0;
  for (auto& [name, entry] : manifest.files) {
    PACELINE_ASSIGN_OR_RETURN(auto file, DataFile::open(directory / name));
    entry.bytes = file.size();
    total += entry.bytes;
    files.emplace_back(std::move(file), &entry);
  }
  for (const Extent& extent : manifest.extents) total += extent.bytes;
  ProgressSum progress(options.progress, total);
  const auto hash_item = [&](std::size_t i) -> Status {
    if (i < files.size()) {
      auto& [file, entry] = files[i];
      PACELINE_ASSIGN_OR_RETURN(entry->sha256,
                                file.hash(0, entry->bytes, nullptr, options.is_wanted));
      progress.add(entry->bytes);
      return {};
    }
    Extent& extent = manifest.extents[i - files.size()];
    PACELINE_ASSIGN_OR_RETURN(
        extent.sha256, weights.hash(extent.offset, extent.bytes, nullptr, options.is_wanted));
    progress.add(extent.bytes);
    return {};
  };
  return for_each_index(files.size() + manifest.extents.size(), options.threads, hash_item);
}

}  // namespace

Result<std::vector<Extent>> plan_extents(std::vector<Piece> pieces, std::uint64_t weight_bytes) {
  PACELINE_RETURN_IF_ERROR(check_pieces(pieces, weight_bytes));
  std::vector<Extent> extents;
  for (const Piece& piece : merged(without_overlaps(std::move(pieces)))) {
    for (std::uint64_t done = 0; done < piece.bytes; done += kMaxExtentBytes) {
      Extent extent;
      extent.offset = piece.offset + done;
      extent.bytes = std::min(kMaxExtentBytes, piece.bytes - done);
      extent.parts = piece.parts;
      extents.push_back(std::move(extent));
    }
  }
  return extents;
}

Result<Manifest> build_manifest(const fs::path& directory, Manifest facts,
                                std::vector<Piece> pieces, const BuildOptions& options) {
  Manifest manifest = std::move(facts);
  manifest.format_version = kFormatVersion;
  manifest.paceline_version = kVersion;
  manifest.files.clear();
  PACELINE_ASSIGN_OR_RETURN(const auto weights, DataFile::open(directory / kWeightsFile));
  manifest.weight_bytes = weights.size();
  PACELINE_ASSIGN_OR_RETURN(manifest.extents, plan_extents(std::move(pieces), weights.size()));
  PACELINE_ASSIGN_OR_RETURN(const auto names, list_files(directory));
  for (const std::string& name : names) manifest.files.emplace(name, FileEntry());
  PACELINE_RETURN_IF_ERROR(hash_all(directory, weights, options, manifest));
  // What is written must be readable: one set of rules, that of the reader.
  return parse_manifest(to_json(manifest));
}

}  // namespace paceline::shard
