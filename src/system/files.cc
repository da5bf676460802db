#include "system/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace paceline::system {
namespace {

namespace fs = std::filesystem;

/// An open descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const { return value_; }

 private:
  int value_;
};

tl::unexpected<Error> fail_errno(const fs::path& path, const char* action) {
  const int number = errno;
  ErrorCode code = ErrorCode::kInternal;
  if (number == ENOENT || number == ENOTDIR) code = ErrorCode::kNotFound;
  if (number == EACCES || number == EPERM || number == EROFS) code = ErrorCode::kPermissionDenied;
  if (number == ENOSPC || number == EDQUOT) code = ErrorCode::kResourceExhausted;
  return fail(code, "{}: cannot {}: {}", path.string(), action, std::strerror(number));
}

Status sync_path(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0 || ::fsync(file.value()) != 0) return fail_errno(path, "sync");
  return {};
}

}  // namespace

Result<std::string> read_text_file(const fs::path& path, std::uint64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0) return fail_errno(path, "open");
  struct stat info = {};
  if (::fstat(file.value(), &info) != 0) return fail_errno(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{}: is not a regular file", path.string());
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_bytes) {
    return fail(ErrorCode::kInvalidArgument, "{}: has {} bytes, at most {} are read", path.string(),
                size, max_bytes);
  }
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.value(), content.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(path, "read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  content.resize(done);
  return content;
}

Status write_file_atomically(const fs::path& path, std::string_view content) {
  fs::path partial = path;
  partial += ".partial";
  {
    const Descriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.value() < 0) return fail_errno(partial, "create");
    while (!content.empty()) {
      const ssize_t count = ::write(file.value(), content.data(), content.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        auto error = fail_errno(partial, "write");
        ::unlink(partial.c_str());
        return error;
      }
      content.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fsync(file.value()) != 0) return fail_errno(partial, "sync");
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) return fail_errno(path, "rename to");
  return {};
}

MappedFile::MappedFile(fs::path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<MappedFile> MappedFile::open(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0) return fail_errno(path, "open");
  struct stat info = {};
  if (::fstat(file.value(), &info) != 0) return fail_errno(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{}: is not a regular file", path.string());
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value(), 0);
  if (data == MAP_FAILED) return fail_errno(path, "map");
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

AtomicDirectory::AtomicDirectory(fs::path target, fs::path partial)
    : target_(std::move(target)), partial_(std::move(partial)) {}

AtomicDirectory::AtomicDirectory(AtomicDirectory&& other) noexcept
    : target_(std::move(other.target_)), partial_(std::exchange(other.partial_, fs::path())) {}

AtomicDirectory::~AtomicDirectory() {
  if (partial_.empty()) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

Result<AtomicDirectory> AtomicDirectory::create(const fs::path& target) {
  std::error_code code;
  if (fs::exists(target, code)) {
    return fail(ErrorCode::kAlreadyExists, "{}: exists already; remove it or choose another name",
                target.string());
  }
  fs::path normal = fs::absolute(target, code).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  fs::path partial = normal;
  partial += fmt::format(".partial-{}", ::getpid());
  fs::create_directories(partial, code);
  if (code) {
    errno = code.value();
    return fail_errno(partial, "create the directory");
  }
  return AtomicDirectory(std::move(normal), std::move(partial));
}

Status AtomicDirectory::commit() {
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(partial_, code)) {
    if (entry.is_regular_file()) PACELINE_RETURN_IF_ERROR(sync_path(entry.path()));
  }
  if (::rename(partial_.c_str(), target_.c_str()) != 0) return fail_errno(target_, "rename to");
  partial_.clear();
  return sync_path(target_.parent_path());
}

}  // namespace paceline::system
