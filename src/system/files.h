// Files of the local machine: bounded reads, read-only mappings, and results that appear whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace paceline::system {

/// The whole file as text; refused where it holds more than `max_bytes`.
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Writes PATH.partial, syncs it, and renames it over PATH.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// A read-only memory mapping of a whole file. Thread-safe to read; move-only.
/// Holes of a sparse file read as zeros and cost no memory until touched.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size);
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A directory that appears at its final path only by commit(); what is not committed is removed,
/// with the parents that were made for it, unless it is to be kept for a later attempt. Lifecycle:
/// create or resume -> write files into path() -> commit() or keep(). Thread-compatible.
class AtomicDirectory {
 public:
  /// Makes TARGET.partial-PID beside `target`, and removes those that killed processes of this
  /// machine left: whose PID is gone and whose lock (held on the directory while it is made) is
  /// free. kAlreadyExists where `target` exists, or where this process makes it already.
  static Result<AtomicDirectory> create(const std::filesystem::path& target);
  /// Makes TARGET.partial, or goes on with the one that an earlier attempt kept, or could not
  /// remove. kAlreadyExists where `target` exists, or where another process has the lock.
  static Result<AtomicDirectory> resume(const std::filesystem::path& target);
  /// Removes what resume() would go on with, unless another process has its lock.
  static void discard(const std::filesystem::path& target);
  AtomicDirectory(AtomicDirectory&& other) noexcept;
  AtomicDirectory& operator=(AtomicDirectory&&) = delete;
  ~AtomicDirectory();

  const std::filesystem::path& path() const { return partial_; }
  /// Syncs every file, then renames the directory to its target.
  Status commit();
  /// Leaves what was written so far to the next resume(). Only of a directory that resume() made.
  void keep();

 private:
  explicit AtomicDirectory(std::filesystem::path target) : target_(std::move(target)) {}
  static Result<AtomicDirectory> prepare(const std::filesystem::path& target);
  std::filesystem::path target_;
  std::filesystem::path partial_;                    ///< empty: nothing is to be removed
  std::vector<std::filesystem::path> made_parents_;  ///< the innermost last
  int lock_ = -1;                                    ///< descriptor of the locked directory
};

}  // namespace paceline::system
