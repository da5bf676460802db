// A file read and written at offsets (pread, pwrite), never mapped, with its holes visible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.h"
#include "shard/progress.h"
#include "shard/sha256.h"

namespace paceline::shard {

/// An open regular file. Move-only; the methods are thread-safe.
class DataFile {
 public:
  static Result<DataFile> open(const std::filesystem::path& path);
  /// A new file of `bytes` bytes that is one hole; kAlreadyExists where the path exists.
  static Result<DataFile> create_sparse(const std::filesystem::path& path, std::uint64_t bytes);
  /// A file for reading and writing, of `bytes` bytes: made where it is not there, cut or extended
  /// by a hole where its length differs.
  static Result<DataFile> open_for_update(const std::filesystem::path& path, std::uint64_t bytes);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) noexcept;
  ~DataFile();

  const std::filesystem::path& path() const { return path_; }
  /// The length when it was opened or created.
  std::uint64_t size() const { return size_; }

  /// Fills `target` from `offset`; kDataLoss where the file ends before.
  Status read(std::uint64_t offset, std::span<std::byte> target) const;
  Status write(std::uint64_t offset, std::span<const std::byte> source);
  /// Whether some of the bytes [offset, offset + bytes) are in no block of the file.
  bool has_hole(std::uint64_t offset, std::uint64_t bytes) const;

  /// Whether all of the bytes [offset, offset + bytes) are in no block of the file.
  bool is_hole(std::uint64_t offset, std::uint64_t bytes) const;
  /// Returns once everything written is on the disk.
  Status sync();

  /// SHA-256 of [offset, offset + bytes), read in pieces of at most 1 MiB. Where `copy_to` is
  /// given, the same bytes are written there at the same offset. `is_wanted` is asked before each
  /// piece.
  Result<Sha256Digest> hash(std::uint64_t offset, std::uint64_t bytes, DataFile* copy_to = nullptr,
                            const IsWanted& is_wanted = {}) const;

 private:
  DataFile(std::filesystem::path path, int descriptor, std::uint64_t size);
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace paceline::shard
