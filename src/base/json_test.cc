#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline {
namespace {

std::string problem(std::string_view text, std::size_t max_depth = 3, std::size_t max_values = 8) {
  const auto parsed = parse_json(text, max_depth, max_values);
  return parsed ? "" : parsed.error().message();
}

TEST(JsonTest, GivesTheDocument) {
  const auto parsed = parse_json(R"({"a": [1, {"b": null}]})", 3, 8);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ((*parsed)["a"][0], 1);
}

TEST(JsonTest, LimitsHoldBeforeAnythingIsBuilt) {
  EXPECT_EQ(problem("[[[1]]]"), "");
  EXPECT_EQ(problem("[[[[1]]]]"), "is nested more than 3 deep");
  EXPECT_EQ(problem(std::string(1 << 20, '[')), "is nested more than 3 deep");
  EXPECT_EQ(problem("[1, 2, 3, 4, 5, 6, 7]"), "");
  EXPECT_EQ(problem("[1, 2, 3, 4, 5, 6, 7, 8]"), "holds more than 8 values");
}

TEST(JsonTest, AKeyStandsOnceInAnObject) {
  EXPECT_EQ(problem(R"({"a": 1, "a": 1})"), "has the key \"a\" twice in one object");
  EXPECT_EQ(problem(R"({"a": {"a": 1}, "b": {"a": 1}})", 3, 20), "");
  EXPECT_EQ(problem(R"({"b": {"a": 1, "c": 2, "a": 1}})", 3, 20),
            "has the key \"a\" twice in one object");
}

TEST(JsonTest, WhatIsNoJsonIsNamedByItsPlace) {
  EXPECT_EQ(problem(""), "is not JSON: syntax error at byte 1");
  EXPECT_EQ(problem("{\"a\": 1"), "is not JSON: syntax error at byte 8");
  EXPECT_EQ(problem("[1] x"), "is not JSON: syntax error at byte 5");
  EXPECT_NE(problem("[\"\xff\"]"), "");
  EXPECT_NE(problem("[1e999]"), "");
}

TEST(JsonTest, ValuesAreShownShortAndInAscii) {
  EXPECT_EQ(shown(nlohmann::json::object()), "an object");
  EXPECT_EQ(shown(nlohmann::json::array({1, 2})), "an array of 2");
  EXPECT_EQ(shown("\n\xc3\xa9"), R"("\n\u00e9")");
  EXPECT_EQ(shown(std::string(50, 'x')), "\"" + std::string(39, 'x') + "...");
}

TEST(JsonIntegersTest, NothingButIntegers) {
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(json_integers({3, -1}), (Integers{3, -1}));
  EXPECT_EQ(json_integers(nlohmann::json::array()), Integers());
  for (const char* text : {"[1, 2.5]", "[1, \"2\"]", "[[1]]", "{\"a\": 1}", "7", "null"}) {
    EXPECT_FALSE(json_integers(nlohmann::json::parse(text))) << text;
  }
}

}  // namespace
}  // namespace paceline
