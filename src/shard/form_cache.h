// The cache of compiled forms (docs/package.md, "Compiled forms"): files, what they are of, and
// whether they may be used. Knows nothing of how a form is made or imported:
// src/engine/compiled_form.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "base/profile.h"
#include "shard/sha256.h"
#include "system/files.h"

namespace paceline::shard {

inline constexpr std::uint64_t kDefaultFormLimitBytes = 32ULL << 30;

/// What a form is of, and for which loader: it is used only where all of this is equal.
struct FormIdentity {
  std::string package_digest;
  LayerRange layers;
  std::string device;  ///< as OpenVINO names it, e.g. "CPU", "GPU.0"
  std::string engine;  ///< "stateful"
  Profile profile = Profile::kFast;
  std::string device_name;  ///< the device's full name
  std::string isa;
  std::string openvino_version;
  std::map<std::string, std::string> properties;
  friend bool operator==(const FormIdentity&, const FormIdentity&) = default;
};

struct FormHeader {
  FormIdentity identity;
  std::uint64_t weight_group = 0;    ///< as the engine finds it; properties follow from it
  std::uint64_t weight_bytes = 0;    ///< of the package's constants in the form
  std::uint64_t embedding_rows = 0;  ///< of the table that ids are looked up in; 0: none
  bool rewinds_by_mask = false;      ///< forgotten tokens may stay behind a mask
  std::uint64_t compile_us = 0;      ///< what reading, cutting and compiling took
  std::uint64_t blob_bytes = 0;
  Sha256Digest blob_sha256 = {};
  friend bool operator==(const FormHeader&, const FormHeader&) = default;
};

/// The last bytes of a form's file.
inline constexpr std::size_t kFormTrailerBytes = 4096;

/// From foreign text; kInvalidArgument names the field.
Result<FormHeader> parse_form_header(std::string_view text);
/// kFormTrailerBytes of text. kInternal where the header does not fit into them.
Result<std::string> form_trailer(const FormHeader& header);

/// The first field of `form` that is not as the loader wants it, with both values; empty where all
/// are.
std::string form_difference(const FormIdentity& form, const FormIdentity& wanted);

/// A form's file, mapped. The blob is not hashed until verify() is called.
class MappedForm {
 public:
  const FormHeader& header() const { return header_; }
  std::span<const std::byte> blob() const { return file_.bytes().first(header_.blob_bytes); }
  /// kDataLoss where the blob does not have its hash.
  Status verify() const;

 private:
  friend class FormCache;
  MappedForm(system::MappedFile file, FormHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}
  system::MappedFile file_;
  FormHeader header_;
};

struct PruneReport {
  std::uint64_t removed = 0;
  std::uint64_t removed_bytes = 0;
  std::uint64_t kept = 0;
  std::uint64_t kept_bytes = 0;
};

/// A directory of forms. Several processes may use one at once. Thread-compatible.
class FormCache {
 public:
  /// $XDG_CACHE_HOME/paceline/forms, or ~/.cache/paceline/forms. kNotFound where neither variable
  /// is set.
  static Result<std::filesystem::path> default_directory();
  /// Makes the directory where it is not there.
  static Result<FormCache> open(std::filesystem::path directory,
                                std::uint64_t limit_bytes = kDefaultFormLimitBytes);

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path path_of(const FormIdentity& identity) const;

  /// The form with this name, whatever else of its identity differs. kNotFound where there is none,
  /// kDataLoss where the file is not whole.
  Result<std::shared_ptr<const MappedForm>> find(const FormIdentity& identity) const {
    return map(path_of(identity));
  }
  /// It was used now: others go before it when the cache is full.
  void touch(const FormIdentity& identity) const;

  /// Writes a form: `write_blob` writes from the stream's begin on; blob_bytes and blob_sha256 are
  /// filled here. It appears whole, replacing an older one; forms that were not used for longest go
  /// where the limit is passed. kResourceExhausted where the disk is full or the form alone is
  /// larger than the limit.
  Status store(FormHeader header, const std::function<Status(std::ostream&)>& write_blob) const;

  /// Removes what killed processes left, what is damaged or of another version of OpenVINO, and
  /// what is beyond the limit.
  Result<PruneReport> prune(std::string_view openvino_version) const;

 private:
  FormCache(std::filesystem::path directory, std::uint64_t limit_bytes)
      : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}
  static Result<std::shared_ptr<const MappedForm>> map(const std::filesystem::path& path);
  Status write(const std::filesystem::path& path, FormHeader& header,
               const std::function<Status(std::ostream&)>& write_blob) const;
  /// Removes the forms that were not used for longest, never `keep`.
  PruneReport evict(const std::filesystem::path& keep) const;

  std::filesystem::path directory_;
  std::uint64_t limit_bytes_;
};

}  // namespace paceline::shard
