// The keys that clients show, as a file of their hashes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace paceline::http {

/// What the file holds of a key: its SHA-256 in hex. Keys are random, so a slow hash adds nothing.
std::string hash_api_key(std::string_view key);

/// Lines "NAME:SHA256-IN-HEX", empty ones, and those that begin with #. Thread-safe.
class ApiKeys {
 public:
  /// Errors name the file and the line.
  static Result<std::shared_ptr<ApiKeys>> open(const std::filesystem::path& path);

  /// Makes a key ("pk-" and 256 random bits in hex), adds its line to the file, which is made where
  /// there is none, and gives the key itself, which is kept nowhere. kInvalidArgument: the name, a
  /// line of the file, a file that cannot be written.
  static Result<std::string> add(const std::filesystem::path& path, std::string_view name);

  /// The name of the key. All keys are compared, each in constant time. Looks at most once a second
  /// whether the file has changed.
  std::optional<std::string> tenant(std::string_view key);

  /// Reads the file anew; where it is broken, the keys stay as they were.
  Status reload();

 private:
  using Digest = std::array<std::uint8_t, 32>;
  struct Key {
    std::string name;
    Digest digest;
  };
  struct FileState {
    std::filesystem::file_time_type written;
    std::uintmax_t bytes = 0;
    bool operator==(const FileState&) const = default;
  };

  explicit ApiKeys(std::filesystem::path path) : path_(std::move(path)) {}
  static Result<std::vector<Key>> parse(const std::filesystem::path& path, std::string_view text);
  std::optional<FileState> file_state() const;
  void reload_if_changed();

  const std::filesystem::path path_;
  std::mutex mutex_;
  std::vector<Key> keys_;
  std::optional<FileState> state_;  ///< of the file when it was read
  TimePoint looked_at_;
};

}  // namespace paceline::http
