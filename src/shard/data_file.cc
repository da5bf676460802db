#include "shard/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "system/descriptor_io.h"
#include "system/errno_error.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;
using system::fail_errno;

constexpr std::uint64_t kPieceBytes = 1ULL << 20;

}  // namespace

DataFile::DataFile(fs::path path, int descriptor, std::uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

DataFile::~DataFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<DataFile> DataFile::open(const fs::path& path) {
  // Without O_NONBLOCK the opening of a FIFO would wait for its writer.
  DataFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0);
  if (file.descriptor_ < 0) return fail_errno(path, "open");
  struct stat info = {};
  if (::fstat(file.descriptor_, &info) != 0) return fail_errno(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{}: is not a regular file", path.string());
  }
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Result<DataFile> DataFile::create_sparse(const fs::path& path, std::uint64_t bytes) {
  DataFile file(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644), bytes);
  if (file.descriptor_ < 0) return fail_errno(path, "create");
  if (::ftruncate(file.descriptor_, static_cast<off_t>(bytes)) != 0) {
    return fail_errno(path, "set the length of");
  }
  return file;
}

Result<DataFile> DataFile::open_for_update(const fs::path& path, std::uint64_t bytes) {
  DataFile file(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644), bytes);
  if (file.descriptor_ < 0) return fail_errno(path, "open");
  struct stat info = {};
  if (::fstat(file.descriptor_, &info) != 0) return fail_errno(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{}: is not a regular file", path.string());
  }
  if (static_cast<std::uint64_t>(info.st_size) == bytes) return file;
  if (::ftruncate(file.descriptor_, static_cast<off_t>(bytes)) != 0) {
    return fail_errno(path, "set the length of");
  }
  return file;
}

Status DataFile::read(std::uint64_t offset, std::span<std::byte> target) const {
  const ssize_t count = system::read_fully(descriptor_, offset, target);
  if (count < 0) return fail_errno(path_, "read");
  const auto done = static_cast<std::size_t>(count);
  if (done == target.size()) return {};
  return fail(ErrorCode::kDataLoss, "{}: ends at byte {}, expected {} bytes more", path_.string(),
              offset + done, target.size() - done);
}

Status DataFile::write(std::uint64_t offset, std::span<const std::byte> source) {
  if (!system::write_fully(descriptor_, offset, source)) return fail_errno(path_, "write");
  return {};
}

bool DataFile::has_hole(std::uint64_t offset, std::uint64_t bytes) const {
  const off_t hole = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_HOLE);
  // The end of the file counts as a hole, which is right here: nothing is stored behind it.
  return hole >= 0 && static_cast<std::uint64_t>(hole) < offset + bytes;
}

bool DataFile::is_hole(std::uint64_t offset, std::uint64_t bytes) const {
  const off_t data = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) return errno == ENXIO;  // nothing is stored from here on
  return static_cast<std::uint64_t>(data) >= offset + bytes;
}

Status DataFile::sync() {
  if (::fsync(descriptor_) != 0) return fail_errno(path_, "sync");
  return {};
}

Result<Sha256Digest> DataFile::hash(std::uint64_t offset, std::uint64_t bytes, DataFile* copy_to,
                                    const IsWanted& is_wanted) const {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
  Sha256 hash;
  while (bytes > 0) {
    if (is_wanted && !is_wanted()) {
      return fail(ErrorCode::kCancelled, "{}: hashing was interrupted", path_.string());
    }
    const auto piece =
        std::span(buffer).first(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
    PACELINE_RETURN_IF_ERROR(read(offset, piece));
    hash.update(piece);
    if (copy_to != nullptr) PACELINE_RETURN_IF_ERROR(copy_to->write(offset, piece));
    offset += piece.size();
    bytes -= piece.size();
  }
  return hash.finish();
}

}  // namespace paceline::shard
