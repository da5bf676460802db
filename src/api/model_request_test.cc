#include "api/model_request.h"

#include <gtest/gtest.h>

namespace paceline::api {
namespace {

TEST(ModelRequestTest, AllFields) {
  const auto read =
      parse_model_request(R"({"model": "org/a", "path": "/m/a", "drain_seconds": 1.5})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->model, "org/a");
  EXPECT_EQ(read->path, "/m/a");
  EXPECT_EQ(read->drain_seconds, 1.5);
  EXPECT_EQ(parse_model_request(R"({"model": "a"})")->path, "");
}

TEST(ModelRequestTest, WhatIsRefusedIsNamed) {
  const auto param = [](std::string_view body) { return parse_model_request(body).error().param; };
  EXPECT_EQ(param("{}"), "model");
  EXPECT_EQ(param(R"({"model": ""})"), "model");
  EXPECT_EQ(param(R"({"model": 5})"), "model");
  EXPECT_EQ(param(R"({"model": "a\u0007b"})"), "model");
  EXPECT_EQ(param(R"({"model": "a'b"})"), "model");
  EXPECT_EQ(param(R"({"model": ")" + std::string(129, 'a') + R"("})"), "model");
  EXPECT_EQ(param(R"({"model": "a", "path": 7})"), "path");
  EXPECT_EQ(param(R"({"model": "a", "path": "a\u0000b"})"), "path");
  EXPECT_EQ(param(R"({"model": "a", "drain_seconds": -1})"), "drain_seconds");
  EXPECT_EQ(param(R"({"model": "a", "drain_seconds": "soon"})"), "drain_seconds");
  EXPECT_EQ(param("[]"), "");
}

}  // namespace
}  // namespace paceline::api
