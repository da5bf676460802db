#include "api/token_logprobs.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace paceline::api {
namespace {

const std::vector<TokenEntry> kEntries = {
    {{"\xF0\x9F", -0.5F}, true, {{"\xF0\x9F", -0.5F}, {"a", -2}}},
    {{"\x98\x80", -0.25F}, true, {}},
};

TEST(TokenLogprobsTest, OfChat) {
  EXPECT_EQ(chat_logprobs(kEntries).dump(),
            R"({"content":[{"token":"\\xf0\\x9f","logprob":-0.5,"bytes":[240,159],"top_logprobs":[)"
            R"({"token":"\\xf0\\x9f","logprob":-0.5,"bytes":[240,159]},)"
            R"({"token":"a","logprob":-2.0,"bytes":[97]}]},)"
            R"({"token":"\\x98\\x80","logprob":-0.25,"bytes":[152,128],"top_logprobs":[]}],)"
            R"("refusal":null})");
}

TEST(TokenLogprobsTest, OfCompletions) {
  std::vector<TokenEntry> entries = {{{"\xC3\xA9", 0}, false, {}},
                                     {{"b", -1}, true, {{"c", -0.5}}}};
  EXPECT_EQ(completion_logprobs(entries, 10, true).dump(),
            R"({"tokens":["é","b"],"token_logprobs":[null,-1.0],)"
            R"("top_logprobs":[null,{"c":-0.5,"b":-1.0}],"text_offset":[10,11]})");
  EXPECT_TRUE(completion_logprobs(entries, 0, false)["top_logprobs"].is_null());
}

TEST(TokenLogprobsTest, WhatCannotBeIsAFiniteNumber) {
  const std::vector<TokenEntry> never = {
      {{"a", -std::numeric_limits<float>::infinity()}, true, {}}};
  EXPECT_EQ(chat_logprobs(never)["content"][0]["logprob"], -9999.0);
}

TEST(TokenLogprobsTest, Characters) {
  EXPECT_EQ(characters("a\xC3\xA9\xF0\x9F\x98\x80"), 3U);
  EXPECT_EQ(characters(""), 0U);
}

}  // namespace
}  // namespace paceline::api
