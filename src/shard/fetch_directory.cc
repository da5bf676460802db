#include "shard/fetch_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shard/fetch.h"
#include "system/errno_error.h"
#include "system/files.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;
using system::fail_errno;

Status check_digest(const fs::path& path, const Manifest& own, const Manifest& wanted) {
  if (own.digest == wanted.digest) return {};
  return fail(ErrorCode::kFailedPrecondition,
              "{}: holds the package {:.12} ({}), the source has {:.12} ({}); choose another "
              "directory",
              path.string(), own.digest, own.model.name, wanted.digest, wanted.model.name);
}

}  // namespace

FetchDirectory::FetchDirectory(FetchDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::exchange(other.made_, {})),
      is_new_(std::exchange(other.is_new_, false)),
      lock_(std::exchange(other.lock_, -1)) {}

FetchDirectory::~FetchDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

Result<FetchDirectory> FetchDirectory::open(const fs::path& path, const Manifest& manifest,
                                            std::string_view manifest_text) {
  FetchDirectory directory(path);
  PACELINE_RETURN_IF_ERROR(directory.make());
  PACELINE_RETURN_IF_ERROR(directory.check_owner(manifest));
  PACELINE_RETURN_IF_ERROR(directory.lock());
  if (const Status written = directory.write_marker(manifest_text); !written) {
    directory.discard_if_new();
    return fail(written.error());
  }
  return directory;
}

Status FetchDirectory::make() {
  std::error_code code;
  fs::path normal = fs::absolute(path_, code).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  for (fs::path made = normal; !fs::exists(made, code); made = made.parent_path()) {
    made_.insert(made_.begin(), made);
  }
  fs::create_directories(normal, code);
  if (code) {
    errno = code.value();
    made_.clear();
    return fail_errno(path_, "create the directory");
  }
  is_new_ = !fs::exists(path_ / kFetchFile, code) && !fs::exists(path_ / kManifestFile, code);
  return {};
}

Status FetchDirectory::check_owner(const Manifest& manifest) const {
  std::error_code code;
  if (is_new_) {
    if (fs::is_empty(path_, code) && !code) return {};
    return fail(ErrorCode::kAlreadyExists,
                "{}: is not empty and no package; choose a new directory or a package",
                path_.string());
  }
  if (fs::exists(path_ / kManifestFile, code)) {
    PACELINE_ASSIGN_OR_RETURN(const auto own, read_manifest(path_));
    PACELINE_RETURN_IF_ERROR(check_digest(path_, own, manifest));
  }
  // A marker that does not parse is of a fetch that was killed as it wrote it: it had nothing yet.
  const auto text = system::read_text_file(path_ / kFetchFile, kMaxManifestBytes);
  const auto marked = text ? parse_manifest(*text) : fail(text.error());
  return marked ? check_digest(path_, *marked, manifest) : Status();
}

Status FetchDirectory::lock() {
  const fs::path marker = path_ / kFetchFile;
  lock_ = ::open(marker.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) return fail_errno(marker, "create");
  struct stat mine = {};
  struct stat current = {};
  // One that was removed meanwhile locks nothing.
  const bool is_locked = ::flock(lock_, LOCK_EX | LOCK_NB) == 0 && ::fstat(lock_, &mine) == 0 &&
                         ::stat(marker.c_str(), &current) == 0 && mine.st_ino == current.st_ino;
  if (is_locked) return {};
  return fail(ErrorCode::kAlreadyExists, "{}: another process is filling it", path_.string());
}

Status FetchDirectory::write_marker(std::string_view manifest_text) const {
  const fs::path marker = path_ / kFetchFile;
  if (::ftruncate(lock_, 0) != 0) return fail_errno(marker, "truncate");
  std::size_t done = 0;
  while (done < manifest_text.size()) {
    const ssize_t count = ::pwrite(lock_, manifest_text.data() + done, manifest_text.size() - done,
                                   static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(marker, "write");
    done += static_cast<std::size_t>(count);
  }
  return {};
}

void FetchDirectory::discard_if_new() {
  if (!is_new_) return;
  std::error_code ignored;
  fs::remove(path_ / kFetchFile, ignored);
  // Those that hold something else by now stay.
  for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
}

Status FetchDirectory::finish(std::string_view manifest_text) {
  std::error_code code;
  if (!fs::exists(path_ / kManifestFile, code)) {
    PACELINE_RETURN_IF_ERROR(system::write_file_atomically(path_ / kManifestFile, manifest_text));
  }
  fs::remove(path_ / kFetchFile, code);
  ::close(std::exchange(lock_, -1));
  return {};
}

}  // namespace paceline::shard
