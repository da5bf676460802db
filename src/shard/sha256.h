// SHA-256 of bytes that arrive in pieces, by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace paceline::shard {

using Sha256Digest = std::array<std::uint8_t, 32>;

/// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256Digest& digest);
/// The inverse; nullopt for anything but 64 lower-case digits.
std::optional<Sha256Digest> sha256_from_hex(std::string_view text);

/// One hash in the making: update()..., finish() once. Thread-compatible.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::span<const std::byte> bytes);
  Sha256Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);
Sha256Digest sha256(std::string_view text);

}  // namespace paceline::shard
