#include "api/embedding_request.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::HasSubstr;

TEST(EmbeddingRequestTest, AllFormsOfInput) {
  for (const char* input : {R"("a")", R"(["a", "b"])", "[1, 2]", "[[1], [2, 3]]"}) {
    const auto read = parse_embedding_request(
        fmt::format(R"({{"model": "m", "input": {}, "encoding_format": "base64"}})", input));
    ASSERT_TRUE(read.has_value()) << input;
    EXPECT_EQ(read->model, "m");
  }
}

TEST(EmbeddingRequestTest, WhatIsWrongIsToldFirst) {
  const auto param = [](const std::string& body) {
    const auto read = parse_embedding_request(body);
    return read ? "accepted" : read.error().param;
  };
  EXPECT_EQ(param("{}"), "input");
  for (const char* input : {"5", "[]", R"("")", R"(["a", 1])", "[[]]", "[-1]", R"([""])"}) {
    EXPECT_EQ(param(fmt::format(R"({{"input": {}}})", input)), "input") << input;
  }
  EXPECT_EQ(param(R"({"input": "a", "encoding_format": "hex"})"), "encoding_format");
  EXPECT_EQ(param(R"({"input": "a", "dimensions": 0})"), "dimensions");
  EXPECT_EQ(param(R"({"input": "a", "model": 5})"), "model");
}

TEST(EmbeddingRequestTest, TheRefusalSaysWhy) {
  const ApiError error = no_embeddings("llama");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "model");
  EXPECT_EQ(error.code, "unsupported_model");
  EXPECT_THAT(error.message, HasSubstr("'llama' gives no embeddings"));
}

}  // namespace
}  // namespace paceline::api
