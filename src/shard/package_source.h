// Where the bytes of a package come from while layers of it are fetched: a directory here, a
// running worker in src/worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "shard/data_file.h"
#include "shard/manifest.h"

namespace paceline::shard {

/// Bytes [offset, offset + bytes) of a file of a package.
struct FileRange {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Bytes that are read or travel at once.
inline constexpr std::uint64_t kMaxPieceBytes = 1ULL << 20;

/// Takes the next bytes of range `index`, at most kMaxPieceBytes, valid during the call. An error
/// ends the reading.
using PieceSink = std::function<Status(std::size_t index, std::span<const std::byte> bytes)>;

/// Thread-compatible. What it gives is not trusted: who asks checks lengths and hashes.
class PackageSource {
 public:
  virtual ~PackageSource() = default;
  /// For messages: a directory, or "host:port".
  virtual const std::string& name() const = 0;
  /// The manifest's bytes, at most kMaxManifestBytes.
  virtual Result<std::string> read_manifest_text() = 0;
  /// Gives the bytes of all ranges to `sink`, in order and exactly as many as asked for. A range of
  /// the weights lies in one extent. Errors: the sink's; kNotFound where the source does not hold
  /// a range; those of reading, named.
  virtual Status read(std::span<const FileRange> ranges, const PieceSink& sink) = 0;
  /// Called now and then during long work between the other calls: a source that is far away takes
  /// silence for an end.
  virtual void keep_alive() {}
};

/// A package directory, perhaps a sparse one. Reads with pread, 1 MiB at a time.
class DirectorySource final : public PackageSource {
 public:
  explicit DirectorySource(std::filesystem::path directory);
  const std::string& name() const override { return name_; }
  Result<std::string> read_manifest_text() override;
  Status read(std::span<const FileRange> ranges, const PieceSink& sink) override;

 private:
  Status read_range(const FileRange& range, std::size_t index, const PieceSink& sink);
  /// Why bytes of this package do not have their hash, where it is this package's fault.
  Status blame(const FileRange& range) const;

  std::filesystem::path directory_;
  std::string name_;
  std::optional<Manifest> manifest_;
};

}  // namespace paceline::shard
