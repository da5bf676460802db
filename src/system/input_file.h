// A file that is read at offsets and never mapped: what is read counts once, in the reader's
// buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.h"

namespace paceline::system {

/// An open regular file. Move-only; reading is thread-safe.
class InputFile {
 public:
  static Result<InputFile> open(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  /// The length when it was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `into` from `offset`; kDataLoss where the file ends before.
  Status read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  InputFile(std::filesystem::path path, int descriptor);
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace paceline::system
