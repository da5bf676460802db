#include "http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/hex.h"
#include "http/ascii.h"
#include "system/files.h"

namespace paceline::http {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxNameBytes = 64;

std::array<std::uint8_t, 32> digest_of(std::string_view key) {
  std::array<std::uint8_t, 32> digest{};
  const int is_done =
      ::EVP_Digest(key.data(), key.size(), digest.data(), nullptr, ::EVP_sha256(), nullptr);
  PACELINE_CHECK(is_done == 1);
  return digest;
}

std::optional<std::array<std::uint8_t, 32>> parse_digest(std::string_view text) {
  std::array<std::uint8_t, 32> digest{};
  if (text.size() != digest.size() * 2) return {};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = lower_case(text[i]);
    unsigned value = 0;
    if (c >= '0' && c <= '9') {
      value = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return {};
    }
    digest[i / 2] = static_cast<std::uint8_t>(digest[i / 2] << 4U | value);
  }
  return digest;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           const char lower = lower_case(c);
           return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '_' || c == '-' || c == '@';
         });
}

Result<std::string> new_key() {
  std::array<std::uint8_t, 32> bytes{};
  if (::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return fail(ErrorCode::kInternal, "no random bytes could be had for a key");
  }
  return "pk-" + to_hex(bytes);
}

}  // namespace

std::string hash_api_key(std::string_view key) { return to_hex(digest_of(key)); }

Result<std::string> ApiKeys::add(const std::filesystem::path& path, std::string_view name) {
  if (!is_name(name)) {
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\": expected a name of letters, digits and . _ - @, {} at most", name,
                kMaxNameBytes);
  }
  std::string before;
  if (std::filesystem::exists(path)) {
    PACELINE_ASSIGN_OR_RETURN(before, system::read_text_file(path, kMaxFileBytes));
    PACELINE_RETURN_IF_ERROR(parse(path, before));
  }
  PACELINE_ASSIGN_OR_RETURN(std::string key, new_key());
  // Appended in one piece: the file keeps its owner and mode, and a server that reads it meanwhile
  // sees whole lines.
  const bool is_open_ended = !before.empty() && before.back() != '\n';
  std::ofstream file(path, std::ios::app);
  file << std::string(is_open_ended ? "\n" : "") + std::string(name) + ":" + hash_api_key(key) +
              "\n";
  file.close();
  if (!file) return fail(ErrorCode::kInvalidArgument, "{}: cannot be written to", path.string());
  return key;
}

Result<std::shared_ptr<ApiKeys>> ApiKeys::open(const std::filesystem::path& path) {
  std::shared_ptr<ApiKeys> keys(new ApiKeys(path));
  PACELINE_RETURN_IF_ERROR(keys->reload());
  return keys;
}

Result<std::vector<ApiKeys::Key>> ApiKeys::parse(const std::filesystem::path& path,
                                                 std::string_view text) {
  std::vector<Key> keys;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const auto digest = parse_digest(trimmed(line.substr(std::min(colon + 1, line.size()))));
    // The line is not shown: it may hold a key that was put there in clear.
    if (!is_name(name) || !digest) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: line {}: expected NAME:HASH, a name of letters, digits and . _ - @, and the "
                  "key's SHA-256 in hex",
                  path.string(), number);
    }
    keys.push_back({std::string(name), *digest});
  }
  return keys;
}

std::optional<ApiKeys::FileState> ApiKeys::file_state() const {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path_, error);
  if (error) return {};
  const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
  if (error) return {};
  return FileState{written, bytes};
}

Status ApiKeys::reload() {
  const auto state = file_state();  // before reading: a change after it is seen the next time
  PACELINE_ASSIGN_OR_RETURN(const std::string text, system::read_text_file(path_, kMaxFileBytes));
  PACELINE_ASSIGN_OR_RETURN(auto keys, parse(path_, text));
  if (keys.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected one line NAME:HASH at least",
                path_.string());
  }
  const std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
  state_ = state;
  return {};
}

void ApiKeys::reload_if_changed() {
  const TimePoint now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (now - looked_at_ < std::chrono::seconds(1)) return;
    looked_at_ = now;
    const auto state = file_state();
    if (!state || state == state_) return;
    state_ = state;  // a broken file is complained of once
  }
  if (const Status status = reload(); !status) {
    spdlog::error("API keys stay as they were: {}", status.error().message());
  }
}

std::optional<std::string> ApiKeys::tenant(std::string_view key) {
  reload_if_changed();
  const Digest digest = digest_of(key);
  const std::lock_guard lock(mutex_);
  const Key* found = nullptr;
  for (const Key& known : keys_) {
    if (::CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0) found = &known;
  }
  if (found == nullptr) return {};
  return found->name;
}

}  // namespace paceline::http
