#include "base/sampling_defaults.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline {
namespace {

using nlohmann::json;

std::string error_of(const char* text) {
  const auto read = read_sampling_defaults(json::parse(text), "sampling.");
  return read ? "no error" : read.error().message();
}

TEST(SamplingDefaultsTest, WhatIsThereIsReadAndWrittenAgain) {
  const char* const kText =
      R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0.0,)"
      R"("repetition_penalty":1.05})";
  const auto read = read_sampling_defaults(json::parse(kText));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->do_sample, true);
  EXPECT_EQ(read->temperature, 0.6);
  EXPECT_EQ(read->top_k, 20U);
  EXPECT_EQ(read->top_p, 0.95);
  EXPECT_EQ(read->min_p, 0.0);
  EXPECT_EQ(read->repetition_penalty, 1.05);
  EXPECT_FALSE(read->empty());
  EXPECT_EQ(to_json(*read).dump(), kText);
}

TEST(SamplingDefaultsTest, WhatIsNotThereStaysUnsaid) {
  const auto read =
      read_sampling_defaults(json::parse(R"({"temperature": null, "eos_token_id": [1]})"));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->empty());
  EXPECT_EQ(to_json(*read).dump(), "{}");
  const auto some = read_sampling_defaults(json::parse(R"({"temperature": 1})"));
  EXPECT_EQ(some->temperature, 1.0);
  EXPECT_EQ(some->top_k, std::nullopt);
}

TEST(SamplingDefaultsTest, EachWrongFieldIsNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"do_sample": 1})", "do_sample: expected true or false, got 1"},
      {R"({"temperature": "hot"})", "temperature: expected a number from 0 to 1000, got \"hot\""},
      {R"({"temperature": -0.1})", "temperature: expected a number from 0 to 1000, got -0.1"},
      {R"({"temperature": true})", "temperature: expected a number from 0 to 1000, got true"},
      {R"({"top_k": 1.5})", "top_k: expected an integer from 0 to 4294967295, got 1.5"},
      {R"({"top_k": -1})", "top_k: expected an integer from 0 to 4294967295, got -1"},
      {R"({"top_k": 4294967296})",
       "top_k: expected an integer from 0 to 4294967295, got 4294967296"},
      {R"({"top_p": 0})", "top_p: expected a number above 0 and of at most 1, got 0"},
      {R"({"top_p": 1.01})", "top_p: expected a number above 0 and of at most 1, got 1.01"},
      {R"({"min_p": [0]})", "min_p: expected a number from 0 to 1, got an array of 1"},
      {R"({"repetition_penalty": 0})",
       "repetition_penalty: expected a number from 0.01 to 100, got 0"},
  };
  for (const auto& [text, message] : kCases) {
    EXPECT_EQ(error_of(text), std::string("sampling.") + message);
  }
}

}  // namespace
}  // namespace paceline
