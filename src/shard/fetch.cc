#include "shard/fetch.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "shard/data_file.h"
#include "shard/fetch_directory.h"
#include "shard/parallel.h"
#include "shard/sha256.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;

/// Left free on the disk: its file system's own bookkeeping takes some.
constexpr std::uint64_t kSpareDiskBytes = 16ULL << 20;

/// What a fetch is about; all of it outlives its parts.
struct Job {
  PackageSource& source;
  const fs::path& directory;
  const Manifest& manifest;
  const FetchOptions& options;
};

Status check_wanted(const FetchOptions& options) {
  if (!options.is_wanted || options.is_wanted()) return {};
  return fail(ErrorCode::kCancelled, "the fetch was interrupted; the same command goes on with it");
}

/// What of the package is to be fetched.
struct Missing {
  std::vector<std::string> files;
  std::vector<std::size_t> extents;  ///< ascending
  std::uint64_t bytes = 0;           ///< of both
  std::uint64_t present_bytes = 0;   ///< of what is there
};

/// Looks what is there: files by hash, extents by hash unless nothing of them is stored.
class Inventory {
 public:
  Inventory(const Job& job, const DataFile& weights)
      : manifest_(job.manifest), job_(job), weights_(weights) {}

  Result<Missing> take(LayerRange range) {
    for (const auto& [name, entry] : manifest_.files) names_.push_back(name);
    extents_ = manifest_.extents_of(range);
    const std::size_t count = names_.size() + extents_.size();
    for (std::size_t item = 0; item < count; ++item) total_ += bytes_of(item);

    std::vector<char> is_there(count, 0);
    PACELINE_RETURN_IF_ERROR(
        for_each_index(count, job_.options.threads, [&](std::size_t item) -> Status {
          PACELINE_RETURN_IF_ERROR(check_wanted(job_.options));
          PACELINE_ASSIGN_OR_RETURN(const bool there, has(item));
          is_there[item] = there ? 1 : 0;
          show(bytes_of(item));
          return {};
        }));
    Missing missing;
    for (std::size_t item = 0; item < count; ++item) {
      (is_there[item] != 0 ? missing.present_bytes : missing.bytes) += bytes_of(item);
      if (is_there[item] != 0) continue;
      if (item < names_.size()) {
        missing.files.push_back(names_[item]);
      } else {
        missing.extents.push_back(extents_[item - names_.size()]);
      }
    }
    return missing;
  }

 private:
  /// Items are the files, then the extents.
  std::uint64_t bytes_of(std::size_t item) const {
    return item < names_.size() ? manifest_.files.at(names_[item]).bytes
                                : manifest_.extents[extents_[item - names_.size()]].bytes;
  }
  Result<bool> has(std::size_t item) const {
    if (item < names_.size()) {
      std::error_code code;
      if (!fs::exists(job_.directory / names_[item], code)) return false;
      const Status whole =
          verify_file(job_.directory, manifest_, names_[item], job_.options.is_wanted);
      PACELINE_RETURN_IF_ERROR(check_wanted(job_.options));
      return whole.has_value();
    }
    const Extent& extent = manifest_.extents[extents_[item - names_.size()]];
    if (weights_.is_hole(extent.offset, extent.bytes)) return false;
    PACELINE_ASSIGN_OR_RETURN(const auto digest, weights_.hash(extent.offset, extent.bytes));
    return digest == extent.sha256;
  }
  void show(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    job_.source.keep_alive();
    if (job_.options.progress) job_.options.progress("checking", done_, total_);
  }

  const Manifest& manifest_;
  const Job& job_;
  const DataFile& weights_;
  std::vector<std::string> names_;
  std::vector<std::size_t> extents_;
  std::uint64_t total_ = 0;
  std::mutex mutex_;
  std::uint64_t done_ = 0;  // guarded by mutex_
};

/// Takes the bytes as they come, hashes them, and puts in place what has its hash.
class Receiver {
 public:
  Receiver(const Job& job, const Missing& missing, DataFile* weights)
      : source_(job.source.name()),
        directory_(job.directory),
        manifest_(job.manifest),
        options_(job.options),
        missing_(missing),
        weights_(weights) {}

  std::vector<FileRange> ranges() const {
    std::vector<FileRange> ranges;
    for (const std::string& name : missing_.files) {
      ranges.push_back({name, 0, manifest_.files.at(name).bytes});
    }
    for (const std::size_t index : missing_.extents) {
      ranges.push_back(
          {kWeightsFile, manifest_.extents[index].offset, manifest_.extents[index].bytes});
    }
    return ranges;
  }

  Status take(std::size_t index, std::span<const std::byte> bytes) {
    PACELINE_RETURN_IF_ERROR(check_wanted(options_));
    const bool is_file = index < missing_.files.size();
    PACELINE_RETURN_IF_ERROR(
        is_file ? take_file(missing_.files[index], bytes)
                : take_extent(missing_.extents[index - missing_.files.size()], bytes));
    done_ += bytes.size();
    if (options_.progress) options_.progress("fetching", done_, missing_.bytes);
    return {};
  }

  /// Files without a byte, of which no source tells, and the last words.
  Status finish() {
    for (const std::string& name : missing_.files) {
      if (manifest_.files.at(name).bytes == 0) PACELINE_RETURN_IF_ERROR(take_file(name, {}));
    }
    if (done_ == missing_.bytes && buffer_.empty() && !part_) return weights_->sync();
    return fail(ErrorCode::kDataLoss, "{}: gave {} bytes, {} were asked for", source_, done_,
                missing_.bytes);
  }

  std::uint64_t done() const { return done_; }

 private:
  tl::unexpected<Error> too_much(std::string_view what) const {
    return fail(ErrorCode::kDataLoss, "{}: gave more bytes of {} than it has", source_, what);
  }

  Status take_file(const std::string& name, std::span<const std::byte> bytes) {
    const FileEntry& entry = manifest_.files.at(name);
    const fs::path partial = directory_ / fmt::format("{}-{}", kFetchFile, name);
    if (!part_) {
      PACELINE_ASSIGN_OR_RETURN(part_, DataFile::open_for_update(partial, entry.bytes));
      file_done_ = 0;
      file_hash_ = Sha256();
    }
    if (bytes.size() > entry.bytes - file_done_) return too_much(name);
    PACELINE_RETURN_IF_ERROR(part_->write(file_done_, bytes));
    file_hash_.update(bytes);
    file_done_ += bytes.size();
    if (file_done_ < entry.bytes) return {};
    const Sha256Digest digest = file_hash_.finish();
    const Status synced = part_->sync();
    part_.reset();
    std::error_code code;
    if (digest != entry.sha256) {
      fs::remove(partial, code);
      return fail(ErrorCode::kDataLoss, "{}: {} came with the SHA-256 {}, expected {} by {}",
                  source_, name, to_hex(digest), to_hex(entry.sha256), kManifestFile);
    }
    PACELINE_RETURN_IF_ERROR(synced);
    fs::rename(partial, directory_ / name, code);
    if (!code) return {};
    return fail(ErrorCode::kInternal, "{}: cannot rename: {}", partial.string(), code.message());
  }

  Status take_extent(std::size_t index, std::span<const std::byte> bytes) {
    const Extent& extent = manifest_.extents[index];
    if (bytes.size() > extent.bytes - buffer_.size())
      return too_much(fmt::format("extent {}", index));
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() < extent.bytes) return {};
    const bool is_right = sha256(buffer_) == extent.sha256;
    Status written = is_right ? weights_->write(extent.offset, buffer_) : Status();
    buffer_.clear();
    if (is_right) return written;
    return fail(ErrorCode::kDataLoss,
                "{}: extent {} ({} bytes at offset {}) came without the SHA-256 of {}", source_,
                index, extent.bytes, extent.offset, kManifestFile);
  }

  const std::string& source_;
  const fs::path& directory_;
  const Manifest& manifest_;
  const FetchOptions& options_;
  const Missing& missing_;
  DataFile* weights_;
  std::vector<std::byte> buffer_;  ///< of the extent that is coming
  std::optional<DataFile> part_;   ///< the file that is coming
  std::uint64_t file_done_ = 0;
  Sha256 file_hash_;
  std::uint64_t done_ = 0;
};

Result<Manifest> checked_manifest(const PackageSource& source, const std::string& text,
                                  const FetchOptions& options) {
  if (text.size() > kMaxManifestBytes) {
    return fail(ErrorCode::kDataLoss, "{}: its {} has {} bytes", source.name(), kManifestFile,
                text.size());
  }
  // The digest first: of a manifest that is not the one asked for nothing is read.
  if (const auto digest = to_hex(sha256(text));
      !options.digest.empty() && digest != options.digest) {
    return fail(ErrorCode::kFailedPrecondition, "{}: has the digest {}, expected {}", source.name(),
                digest, options.digest);
  }
  auto manifest = parse_manifest(text);
  if (!manifest) return fail(manifest.error().with_context(source.name()));
  if (options.layers) PACELINE_RETURN_IF_ERROR(manifest->check_range(*options.layers));
  return manifest;
}

Status check_disk(const fs::path& directory, std::uint64_t bytes) {
  std::error_code code;
  const fs::space_info space = fs::space(directory, code);
  if (code || bytes == 0 || space.available >= bytes + kSpareDiskBytes) return {};
  return fail(ErrorCode::kResourceExhausted,
              "{}: {} MiB are to be fetched, {} MiB of disk are free", directory.string(),
              (bytes >> 20U) + 1, space.available >> 20U);
}

}  // namespace

Result<FetchReport> fetch_layers(PackageSource& source, const fs::path& target,
                                 const FetchOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, source.read_manifest_text());
  PACELINE_ASSIGN_OR_RETURN(const auto manifest, checked_manifest(source, text, options));
  PACELINE_ASSIGN_OR_RETURN(auto directory, FetchDirectory::open(target, manifest, text));
  FetchReport report;
  report.digest = manifest.digest;
  report.layers = options.layers.value_or(manifest.all_layers());

  const fs::path bin = target / kWeightsFile;
  PACELINE_ASSIGN_OR_RETURN(auto weights, DataFile::open_for_update(bin, manifest.weight_bytes));
  const Job job = {source, target, manifest, options};
  PACELINE_ASSIGN_OR_RETURN(const Missing missing, Inventory(job, weights).take(report.layers));
  if (const Status room = check_disk(target, missing.bytes); !room) {
    std::error_code ignored;
    if (missing.present_bytes == 0 && weights.is_hole(0, manifest.weight_bytes)) {
      fs::remove(bin, ignored);
      directory.discard_if_new();
    }
    return fail(room.error());
  }
  report.present_bytes = missing.present_bytes;
  Receiver receiver(job, missing, &weights);
  const std::vector<FileRange> ranges = receiver.ranges();
  PACELINE_RETURN_IF_ERROR(
      source.read(ranges, [&receiver](std::size_t index, std::span<const std::byte> bytes) {
        return receiver.take(index, bytes);
      }));
  PACELINE_RETURN_IF_ERROR(receiver.finish());
  report.fetched_bytes = receiver.done();
  PACELINE_RETURN_IF_ERROR(directory.finish(text));
  return report;
}

}  // namespace paceline::shard
