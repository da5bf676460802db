#include "system/files.h"
#include "system/errno_error.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
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

Status sync_path(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0 || ::fsync(file.value()) != 0) return fail_errno(path, "sync");
  return {};
}

constexpr char kPartialSuffix[] = ".partial-";

/// A descriptor of the directory, locked until it is closed; -1 where another process has the lock
/// (errno is EWOULDBLOCK) or the file system knows none.
int lock_directory(const fs::path& path) {
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || ::flock(directory, LOCK_EX | LOCK_NB) == 0) return directory;
  const int number = errno;
  ::close(directory);
  errno = number;
  return -1;
}

/// The PID that `name` ends with where it is "BASE.partial-PID".
std::optional<pid_t> maker_of(std::string_view name, std::string_view base) {
  const std::string begin = std::string(base) + kPartialSuffix;
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size() || pid <= 0) return std::nullopt;
  return pid;
}

fs::path normal_path(const fs::path& path) {
  std::error_code code;
  fs::path normal = fs::absolute(path, code).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path resumable_path(const fs::path& target) { return target.string() + ".partial"; }

/// Removes what killed processes left of earlier attempts at `target`. The PID alone could be of
/// another machine or container that shares the disk, the lock alone misses one that was made a
/// moment ago; a directory with this process's own PID and no lock is of a process before it.
void remove_stale(const fs::path& target) {
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(target.parent_path(), ignored)) {
    const auto maker = maker_of(entry.path().filename().string(), target.filename().string());
    if (!maker) continue;
    if (*maker == ::getpid() || (::kill(*maker, 0) != 0 && errno == ESRCH)) {
      stale.push_back(entry.path());
    }
  }
  for (const fs::path& path : stale) {
    const Descriptor lock(lock_directory(path));
    if (lock.value() >= 0) fs::remove_all(path, ignored);
  }
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

AtomicDirectory::AtomicDirectory(AtomicDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      partial_(std::exchange(other.partial_, fs::path())),
      made_parents_(std::exchange(other.made_parents_, {})),
      lock_(std::exchange(other.lock_, -1)) {}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!partial_.empty()) fs::remove_all(partial_, ignored);
  if (lock_ >= 0) ::close(lock_);
  // Those that hold something else by now stay.
  for (; !made_parents_.empty(); made_parents_.pop_back()) {
    fs::remove(made_parents_.back(), ignored);
  }
}

/// Everything but the directory itself.
Result<AtomicDirectory> AtomicDirectory::prepare(const fs::path& target) {
  std::error_code code;
  if (fs::exists(target, code)) {
    return fail(ErrorCode::kAlreadyExists, "{}: exists already; remove it or choose another name",
                target.string());
  }
  const fs::path normal = normal_path(target);
  AtomicDirectory directory(normal);
  const fs::path parent = normal.parent_path();
  for (fs::path made = parent; !fs::exists(made, code); made = made.parent_path()) {
    directory.made_parents_.insert(directory.made_parents_.begin(), made);
  }
  fs::create_directories(parent, code);
  if (code) {
    errno = code.value();
    return fail_errno(parent, "create the directory");
  }
  remove_stale(normal);
  return directory;
}

Result<AtomicDirectory> AtomicDirectory::create(const fs::path& target) {
  PACELINE_ASSIGN_OR_RETURN(auto directory, prepare(target));
  const fs::path partial =
      directory.target_.string() + fmt::format("{}{}", kPartialSuffix, ::getpid());
  if (::mkdir(partial.c_str(), 0777) != 0) return fail_errno(partial, "create the directory");
  directory.partial_ = partial;
  directory.lock_ = lock_directory(partial);
  return directory;
}

Result<AtomicDirectory> AtomicDirectory::resume(const fs::path& target) {
  PACELINE_ASSIGN_OR_RETURN(auto directory, prepare(target));
  const fs::path partial = resumable_path(directory.target_);
  if (::mkdir(partial.c_str(), 0777) != 0 && errno != EEXIST) {
    return fail_errno(partial, "create the directory");
  }
  directory.lock_ = lock_directory(partial);
  if (directory.lock_ < 0 && errno == EWOULDBLOCK) {
    return fail(ErrorCode::kAlreadyExists, "{}: is being made by another process",
                partial.string());
  }
  directory.partial_ = partial;
  return directory;
}

void AtomicDirectory::discard(const fs::path& target) {
  const fs::path partial = resumable_path(normal_path(target));
  const Descriptor lock(lock_directory(partial));
  std::error_code ignored;
  if (lock.value() >= 0) fs::remove_all(partial, ignored);
}

void AtomicDirectory::keep() {
  partial_.clear();
  made_parents_.clear();
}

Status AtomicDirectory::commit() {
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(partial_, code)) {
    if (entry.is_regular_file()) PACELINE_RETURN_IF_ERROR(sync_path(entry.path()));
  }
  if (::rename(partial_.c_str(), target_.c_str()) != 0) return fail_errno(target_, "rename to");
  partial_.clear();
  made_parents_.clear();
  return sync_path(target_.parent_path());
}

}  // namespace paceline::system
