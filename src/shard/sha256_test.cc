#include "shard/sha256.h"

#include <gtest/gtest.h>

namespace paceline::shard {
namespace {

// The examples of FIPS 180-4 (NIST's "SHA256.pdf") and the empty message.
TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(to_hex(sha256(std::string_view(""))),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(std::string_view("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      to_hex(sha256(std::string_view("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256Test, PiecesGiveTheHashOfTheWhole) {
  const std::string_view text = "one message in three pieces";
  Sha256 hash;
  for (const std::string_view piece : {text.substr(0, 5), text.substr(5, 0), text.substr(5)}) {
    hash.update(std::as_bytes(std::span(piece.data(), piece.size())));
  }
  EXPECT_EQ(hash.finish(), sha256(text));
}

TEST(Sha256Test, HexGoesBothWaysAndRefusesTheRest) {
  const Sha256Digest digest = sha256(std::string_view("x"));
  const std::string hex = to_hex(digest);
  EXPECT_EQ(sha256_from_hex(hex), digest);
  EXPECT_EQ(sha256_from_hex(hex.substr(1)), std::nullopt);
  EXPECT_EQ(sha256_from_hex(hex + "0"), std::nullopt);
  std::string upper = hex;
  upper[0] = 'A';
  EXPECT_EQ(sha256_from_hex(upper), std::nullopt);
  upper[0] = 'g';
  EXPECT_EQ(sha256_from_hex(upper), std::nullopt);
}

}  // namespace
}  // namespace paceline::shard
