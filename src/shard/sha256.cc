#include "shard/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"
#include "base/hex.h"

namespace paceline::shard {
namespace {

int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string to_hex(const Sha256Digest& digest) { return paceline::to_hex(digest); }

std::optional<Sha256Digest> sha256_from_hex(std::string_view text) {
  Sha256Digest digest = {};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const int high = digit_value(text[2 * i]);
    const int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return digest;
}

struct Sha256::Context {
  EVP_MD_CTX* value = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(value); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  // Fails only without memory or without the algorithm, which every OpenSSL has.
  PACELINE_CHECK(context_->value != nullptr);
  PACELINE_CHECK(EVP_DigestInit_ex(context_->value, EVP_sha256(), nullptr) == 1);
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  PACELINE_CHECK(EVP_DigestUpdate(context_->value, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest = {};
  unsigned int size = 0;
  PACELINE_CHECK(EVP_DigestFinal_ex(context_->value, digest.data(), &size) == 1);
  PACELINE_CHECK(size == digest.size());
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Sha256Digest sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace paceline::shard
