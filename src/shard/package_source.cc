#include "shard/package_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shard/package.h"
#include "system/files.h"

namespace paceline::shard {

DirectorySource::DirectorySource(std::filesystem::path directory)
    : directory_(std::move(directory)), name_(directory_.string()) {}

Result<std::string> DirectorySource::read_manifest_text() {
  PACELINE_ASSIGN_OR_RETURN(manifest_, read_manifest(directory_));
  return system::read_text_file(directory_ / kManifestFile, kMaxManifestBytes);
}

Status DirectorySource::read(std::span<const FileRange> ranges, const PieceSink& sink) {
  for (std::size_t index = 0; index < ranges.size(); ++index) {
    const Status done = read_range(ranges[index], index, sink);
    if (done) continue;
    if (done.error().code() == ErrorCode::kDataLoss) {
      PACELINE_RETURN_IF_ERROR(blame(ranges[index]));
    }
    return done;
  }
  return {};
}

Status DirectorySource::read_range(const FileRange& range, std::size_t index,
                                   const PieceSink& sink) {
  PACELINE_ASSIGN_OR_RETURN(const auto file, DataFile::open(directory_ / range.file));
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(range.bytes, kMaxPieceBytes)));
  for (std::uint64_t done = 0; done < range.bytes;) {
    const auto piece = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), range.bytes - done)));
    PACELINE_RETURN_IF_ERROR(file.read(range.offset + done, piece));
    PACELINE_RETURN_IF_ERROR(sink(index, piece));
    done += piece.size();
  }
  return {};
}

Status DirectorySource::blame(const FileRange& range) const {
  if (!manifest_) return {};
  if (range.file != kWeightsFile) return verify_file(directory_, *manifest_, range.file);
  const auto extent = manifest_->extent_with(range.offset, range.bytes);
  return extent ? verify_extent(directory_, *manifest_, *extent) : Status();
}

}  // namespace paceline::shard
