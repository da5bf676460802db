#include "compiler/bin_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "system/descriptor_io.h"
#include "system/errno_error.h"

namespace paceline::compiler {
namespace {

using system::fail_errno;

}  // namespace

BinFile::BinFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

BinFile::BinFile(BinFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

BinFile& BinFile::operator=(BinFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

BinFile::~BinFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<BinFile> BinFile::create(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return fail_errno(path, "create");
  return BinFile(path, descriptor);
}

Result<BinFile> BinFile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return fail_errno(path, "open");
  return BinFile(path, descriptor);
}

std::uint64_t BinFile::reserve(std::uint64_t bytes) {
  const std::uint64_t offset = (size_ + kAlignment - 1) / kAlignment * kAlignment;
  size_ = offset + bytes;
  return offset;
}

Status BinFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  PACELINE_CHECK(offset + bytes.size() <= size_);
  if (!system::write_fully(descriptor_, offset, bytes)) return fail_errno(path_, "write");
  return {};
}

Status BinFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  const ssize_t count = system::read_fully(descriptor_, offset, bytes);
  if (count < 0) return fail_errno(path_, "read");
  const auto done = static_cast<std::size_t>(count);
  if (done == bytes.size()) return {};
  return fail(ErrorCode::kDataLoss, "{}: ends at byte {}", path_.string(), offset + done);
}

Status BinFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) return fail_errno(path_, "truncate");
  return {};
}

Result<std::uint64_t> BinFile::allocated_bytes() const {
  struct stat info = {};
  if (::fstat(descriptor_, &info) != 0) return fail_errno(path_, "stat");
  constexpr std::uint64_t kBlock = 512;  // the unit of st_blocks, whatever the file system's own
  return static_cast<std::uint64_t>(info.st_blocks) * kBlock;
}

Status BinFile::flush() {
  if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) return fail_errno(path_, "extend");
  return {};
}

}  // namespace paceline::compiler
