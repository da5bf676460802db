#include "system/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "system/descriptor_io.h"
#include "system/errno_error.h"

namespace paceline::system {
namespace {}  // namespace

InputFile::InputFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InputFile> InputFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK the opening of a FIFO would wait for its writer.
  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor_ < 0) return fail_errno(path, "open");
  struct stat info = {};
  if (::fstat(file.descriptor_, &info) != 0) return fail_errno(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{}: is not a regular file", path.string());
  }
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status InputFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  const ssize_t count = read_fully(descriptor_, offset, into);
  if (count < 0) return fail_errno(path_, "read");
  const auto done = static_cast<std::size_t>(count);
  if (done == into.size()) return {};
  return fail(ErrorCode::kDataLoss, "{}: ends at byte {}, expected {} more", path_.string(),
              offset + done, into.size() - done);
}

}  // namespace paceline::system
