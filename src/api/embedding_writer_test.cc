#include "api/embedding_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace paceline::api {
namespace {

/// Of what another decoder would say of it.
std::vector<float> from_base64(const std::string& text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    const auto value =
        std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(digit);
    EXPECT_NE(value, std::string::npos) << digit;
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFFU);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST(EmbeddingWriterTest, NumbersAndBase64GiveTheSameBits) {
  std::mt19937 random(5);
  for (const std::size_t size : {1U, 2U, 3U, 64U}) {
    std::vector<float> vector(size);
    for (float& value : vector) {
      value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                         -static_cast<int>(random() % 60));
    }
    const Json numbers = Json::parse(embedding_item(7, vector, false));
    EXPECT_EQ(numbers["object"], "embedding");
    EXPECT_EQ(numbers["index"], 7);
    EXPECT_EQ(numbers["embedding"].get<std::vector<float>>(), vector);
    const Json coded = Json::parse(embedding_item(7, vector, true));
    const std::string text = coded["embedding"];
    EXPECT_EQ(text.size(), (size * 4 + 2) / 3 * 4);
    EXPECT_EQ(from_base64(text), vector);
  }
  EXPECT_EQ(embedding_item(0, std::vector<float>{1.0F, -0.5F}, true),
            R"({"object":"embedding","index":0,"embedding":"AACAPwAAAL8="})");
}

TEST(EmbeddingWriterTest, TheSmallestNumbersAreJson) {
  const std::vector<float> odd = {
      0.0F,  -0.0F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(),
      1e-7F, 1.0F};
  const Json read = Json::parse(embedding_item(0, odd, false));
  EXPECT_EQ(read["embedding"].get<std::vector<float>>(), odd);
}

TEST(EmbeddingWriterTest, AVectorHasTheLengthOneOrNoDirection) {
  std::vector<float> vector = {3.0F, -4.0F, 0.0F};
  EXPECT_TRUE(normalise(vector));
  EXPECT_EQ(vector, (std::vector<float>{0.6F, -0.8F, 0.0F}));
  std::vector<float> large(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(normalise(large)) << "squares beyond f32";
  EXPECT_NEAR(large[0], 1 / std::sqrt(1000.0), 1e-7);
  for (const float bad : {0.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> none = {bad, 0.0F};
    EXPECT_FALSE(normalise(none)) << bad;
  }
}

TEST(EmbeddingWriterTest, AListHasItsItemsTheModelAndTheCounts) {
  const std::vector<float> vector = {1.0F};
  const std::vector<std::string> items = {embedding_item(0, vector, false),
                                          embedding_item(1, vector, true)};
  Usage usage;
  usage.prompt_tokens = 12;
  usage.completion_tokens = 5;
  const Json list = Json::parse(embedding_list(items, "a \"b\"", usage));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][1]["index"], 1);
  EXPECT_EQ(list["model"], "a \"b\"");
  EXPECT_EQ(list["usage"], (Json{{"prompt_tokens", 12}, {"total_tokens", 12}}));
}

}  // namespace
}  // namespace paceline::api
