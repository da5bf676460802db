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
    EXPECT_TRUE(read->is_base64);
    EXPECT_FALSE(read->inputs.empty());
  }
}

TEST(EmbeddingRequestTest, WhatIsNotThereIsAsOpenAiHasIt) {
  const auto read = parse_embedding_request(R"({"input": ["a", "b"], "user": "u", "new": 1})");
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->is_base64);
  EXPECT_FALSE(read->dimensions);
  EXPECT_TRUE(read->add_special_tokens);
  EXPECT_EQ(read->inputs, (std::vector<PromptText>{std::string("a"), std::string("b")}));
  const auto given = parse_embedding_request(
      R"({"input": [5, 6], "dimensions": 8, "priority": -3, "cache_salt": "s",
          "add_special_tokens": false})");
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(given->inputs, (std::vector<PromptText>{TokenIds{5, 6}}));
  EXPECT_EQ(given->dimensions, 8U);
  EXPECT_EQ(given->priority, -3);
  EXPECT_EQ(given->cache_salt, "s");
  EXPECT_FALSE(given->add_special_tokens);
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
  EXPECT_EQ(param(R"({"input": "a", "truncate_prompt_tokens": 5})"), "truncate_prompt_tokens");
  std::string many = R"({"input": ["a")";
  for (std::size_t i = 1; i < EmbeddingRequest::kMaxInputs; ++i) many += R"(, "a")";
  EXPECT_EQ(param(many + "]}"), "accepted");
  EXPECT_EQ(param(many + R"(, "a"]})"), "input");
}

TEST(EmbeddingRequestTest, SizesAreTheModelsAndAnswersAreBounded) {
  EmbeddingRequest request;
  request.inputs.resize(EmbeddingRequest::kMaxInputs);
  EXPECT_FALSE(check_size(request, 4096));
  const auto many = check_size(request, 4097);
  ASSERT_TRUE(many);
  EXPECT_EQ(many->param, "input");
  EXPECT_THAT(many->message, HasSubstr("at most 2047 inputs to vectors of 4097 values, got 2048"));
  request.inputs.resize(1);
  request.dimensions = 64;
  EXPECT_FALSE(check_size(request, 64));
  const auto other = check_size(request, 65);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->param, "dimensions");
  EXPECT_EQ(other->code, "unsupported_parameter");
  EXPECT_THAT(other->message, HasSubstr("expected 65"));
}

TEST(EmbeddingRequestTest, TheRefusalSaysWhy) {
  const ApiError error = no_embeddings("llama", "worker a: it is old");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "model");
  EXPECT_EQ(error.code, "unsupported_model");
  EXPECT_THAT(error.message, HasSubstr("'llama' gives no embeddings: worker a: it is old"));
}

}  // namespace
}  // namespace paceline::api
