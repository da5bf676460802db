// The openvino_model.bin under construction: regions are reserved in order and filled in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.h"

namespace paceline::compiler {

/// Lifecycle: create or open -> reserve and write -> flush. Move-only; thread-compatible, but read
/// and write are thread-safe where nothing is reserved meanwhile.
class BinFile {
 public:
  /// Every region starts at a multiple of this, so that constants are aligned where it is mapped.
  static constexpr std::uint64_t kAlignment = 64;

  /// kResourceExhausted where the disk is full, here and in write.
  static Result<BinFile> create(const std::filesystem::path& path);
  /// The same, with what an interrupted attempt left in it.
  static Result<BinFile> open(const std::filesystem::path& path);
  BinFile(BinFile&& other) noexcept;
  BinFile& operator=(BinFile&& other) noexcept;
  ~BinFile();

  /// The offset of a new region of `bytes` after all others.
  std::uint64_t reserve(std::uint64_t bytes);
  /// Writes into a reserved region.
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// What was written there; kDataLoss beyond the end of the file.
  Status read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Forgets all reservations; the bytes stay.
  void restart() { size_ = 0; }
  /// Makes the file empty; reservations stay.
  Status clear();
  /// Bytes that the disk holds for it already.
  Result<std::uint64_t> allocated_bytes() const;
  /// Gives the file its full length, also where the last region was not filled.
  Status flush();

  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  BinFile(std::filesystem::path path, int descriptor);
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace paceline::compiler
