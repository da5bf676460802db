#include "shard/form_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "shard/data_file.h"
#include "system/user_directories.h"

namespace paceline::shard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormSuffix = ".form";
constexpr std::string_view kPartialMark = ".partial-";
/// After so long also a partial form whose process seems to live was left by another machine.
constexpr auto kStaleAge = std::chrono::hours(24);

/// Only what names a file in this directory.
std::string file_part(std::string_view text) {
  std::string part;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '.' || c == '_';
    part += is_plain ? c : '_';
  }
  return part;
}

bool is_form(const fs::path& path) {
  return path.filename().string().ends_with(kFormSuffix) && path.filename().string()[0] != '.';
}

/// A partial form that nobody writes any more.
bool is_stale(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t mark = name.find(kPartialMark);
  if (mark == std::string::npos) return false;
  pid_t pid = 0;
  const char* begin = name.data() + mark + kPartialMark.size();
  std::from_chars(begin, name.data() + name.size(), pid);
  if (pid <= 0 || (::kill(pid, 0) != 0 && errno == ESRCH)) return true;
  std::error_code code;
  const auto written = fs::last_write_time(path, code);
  return !code && fs::file_time_type::clock::now() - written > kStaleAge;
}

struct StoredForm {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

/// The least recently used first.
std::vector<StoredForm> forms_in(const fs::path& directory) {
  std::vector<StoredForm> forms;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    if (!is_form(entry.path())) continue;
    std::error_code gone;
    const std::uint64_t bytes = entry.file_size(gone);
    const auto used = entry.last_write_time(gone);
    if (!gone) forms.push_back({entry.path(), bytes, used});
  }
  std::sort(forms.begin(), forms.end(),
            [](const StoredForm& a, const StoredForm& b) { return a.used < b.used; });
  return forms;
}

}  // namespace

Status MappedForm::verify() const {
  if (sha256(blob()) == header_.blob_sha256) return {};
  return fail(ErrorCode::kDataLoss, "{}: is damaged: its blob does not have its SHA-256",
              file_.path().string());
}

Result<fs::path> FormCache::default_directory() {
  const fs::path cache = system::user_directory("XDG_CACHE_HOME", ".cache");
  if (cache.is_absolute()) return cache / "paceline" / "forms";
  return fail(ErrorCode::kNotFound,
              "neither XDG_CACHE_HOME nor HOME is set; name a directory with "
              "--cache");
}

Result<FormCache> FormCache::open(fs::path directory, std::uint64_t limit_bytes) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (!code && fs::is_directory(directory, code)) {
    return FormCache(std::move(directory), limit_bytes);
  }
  return fail(ErrorCode::kPermissionDenied, "{}: cannot be made a cache: {}", directory.string(),
              code ? code.message() : "is no directory");
}

fs::path FormCache::path_of(const FormIdentity& identity) const {
  return directory_ / fmt::format("{:.16}-{}-{}-{}-{}-{}{}", file_part(identity.package_digest),
                                  identity.layers.begin, identity.layers.end,
                                  file_part(identity.device), file_part(identity.engine),
                                  to_string(identity.profile), kFormSuffix);
}

Result<std::shared_ptr<const MappedForm>> FormCache::map(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(auto file, system::MappedFile::open(path));
  const auto torn = [&path](std::string_view why) {
    return fail(ErrorCode::kDataLoss, "{}: is damaged: {}", path.string(), why);
  };
  const auto bytes = file.bytes();
  if (bytes.size() < kFormTrailerBytes) return torn("it is too short");
  const auto trailer = bytes.last(kFormTrailerBytes);
  auto header = parse_form_header(
      {reinterpret_cast<const char*>(trailer.data()), trailer.size()});  // NOLINT: it is text
  if (!header) return torn(header.error().message());
  if (header->blob_bytes != bytes.size() - kFormTrailerBytes) {
    return torn(fmt::format("it holds {} bytes, its description says {}",
                            bytes.size() - kFormTrailerBytes, header->blob_bytes));
  }
  return std::shared_ptr<const MappedForm>(new MappedForm(std::move(file), *std::move(header)));
}

void FormCache::touch(const FormIdentity& identity) const {
  // Where this fails the form only goes earlier.
  (void)::utimensat(AT_FDCWD, path_of(identity).c_str(), nullptr, 0);
}

Status FormCache::write(const fs::path& path, FormHeader& header,
                        const std::function<Status(std::ostream&)>& write_blob) const {
  {
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    errno = 0;
    PACELINE_RETURN_IF_ERROR(write_blob(stream));
    stream.close();
    // A stream does not say why; the plugin writes on whatever happens.
    if (!stream) {
      return fail(ErrorCode::kResourceExhausted, "{}: cannot be written: {}", path.string(),
                  errno == 0 ? "unknown reason" : std::strerror(errno));
    }
  }
  std::error_code code;
  header.blob_bytes = fs::file_size(path, code);
  PACELINE_ASSIGN_OR_RETURN(auto file,
                            DataFile::open_for_update(path, header.blob_bytes + kFormTrailerBytes));
  PACELINE_ASSIGN_OR_RETURN(header.blob_sha256, file.hash(0, header.blob_bytes));
  PACELINE_ASSIGN_OR_RETURN(const std::string trailer, form_trailer(header));
  PACELINE_RETURN_IF_ERROR(
      file.write(header.blob_bytes, std::as_bytes(std::span(trailer.data(), trailer.size()))));
  return file.sync();
}

Status FormCache::store(FormHeader header,
                        const std::function<Status(std::ostream&)>& write_blob) const {
  static std::atomic<unsigned> counter = 0;
  const fs::path path = path_of(header.identity);
  const fs::path partial = directory_ / fmt::format(".{}{}{}-{}", path.filename().string(),
                                                    kPartialMark, ::getpid(), counter.fetch_add(1));
  std::error_code code;
  Status written = write(partial, header, write_blob);
  if (written && header.blob_bytes + kFormTrailerBytes > limit_bytes_) {
    written = fail(ErrorCode::kResourceExhausted, "the form has {} MiB, the cache {} in all",
                   header.blob_bytes >> 20U, limit_bytes_ >> 20U);
  }
  if (written && ::rename(partial.c_str(), path.c_str()) != 0) {
    written =
        fail(ErrorCode::kInternal, "{}: cannot rename: {}", path.string(), std::strerror(errno));
  }
  if (!written) {
    fs::remove(partial, code);
    return written;
  }
  evict(path);
  return {};
}

PruneReport FormCache::evict(const fs::path& keep) const {
  PruneReport report;
  const std::vector<StoredForm> forms = forms_in(directory_);
  for (const StoredForm& form : forms) report.kept_bytes += form.bytes;
  report.kept = forms.size();
  for (const StoredForm& form : forms) {
    if (report.kept_bytes <= limit_bytes_) break;
    std::error_code code;
    if (form.path == keep || !fs::remove(form.path, code)) continue;
    --report.kept;
    ++report.removed;
    report.kept_bytes -= form.bytes;
    report.removed_bytes += form.bytes;
  }
  return report;
}

Result<PruneReport> FormCache::prune(std::string_view openvino_version) const {
  PruneReport useless;
  std::vector<fs::path> paths;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory_, code)) paths.push_back(entry.path());
  if (code) {
    return fail(ErrorCode::kNotFound, "{}: cannot list: {}", directory_.string(), code.message());
  }
  for (const fs::path& path : paths) {
    std::error_code gone;
    const std::uint64_t bytes = fs::file_size(path, gone);
    bool is_useless = is_stale(path);
    if (is_form(path)) {
      const auto form = map(path);
      is_useless = !form || (*form)->header().identity.openvino_version != openvino_version;
    }
    if (!is_useless || !fs::remove(path, gone)) continue;
    ++useless.removed;
    useless.removed_bytes += bytes;
  }
  PruneReport report = evict({});
  report.removed += useless.removed;
  report.removed_bytes += useless.removed_bytes;
  return report;
}

}  // namespace paceline::shard
