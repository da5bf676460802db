#include "cli/load_flags.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

using testing::HasSubstr;

LoadFlags defaults() {
  LoadFlags flags;
  flags.requests = 5;
  flags.concurrency = 3;
  flags.seed = 9;
  flags.temperature = 0.5;
  return flags;
}

std::string refusal(std::string_view line) {
  const auto load = parse_load_line(defaults(), line);
  if (load) return "taken";
  EXPECT_EQ(load.error().code(), ErrorCode::kInvalidArgument);
  return load.error().message();
}

TEST(LoadLineTest, WhatIsNotThereIsAsTheFlagsSay) {
  const auto load = parse_load_line(defaults(), "{}");
  ASSERT_TRUE(load) << load.error().message();
  EXPECT_EQ(load->flags.requests, 5U);
  EXPECT_EQ(load->flags.concurrency, 3U);
  EXPECT_EQ(load->flags.seed, 9U);
  EXPECT_EQ(load->flags.prompt_tokens, "128");
  EXPECT_DOUBLE_EQ(load->flags.temperature, 0.5);
  EXPECT_TRUE(load->prompts.empty());
}

TEST(LoadLineTest, MembersOverrideFlags) {
  const auto load = parse_load_line(
      defaults(),
      R"({"requests": 40, "concurrency": 16, "prompt_tokens": 100, "output_tokens": "8:64",
          "shared_prefix": 32, "seed": 18446744073709551615, "temperature": 1})");
  ASSERT_TRUE(load) << load.error().message();
  const auto spec = load->flags.spec();
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->requests, 40U);
  EXPECT_EQ(spec->prompt_tokens, (load::Range{100, 100}));
  EXPECT_EQ(spec->output_tokens, (load::Range{8, 64}));
  EXPECT_EQ(spec->shared_prefix_tokens, 32U);
  EXPECT_EQ(spec->seed, UINT64_MAX);
  EXPECT_EQ(load->flags.concurrency, 16U);
  EXPECT_DOUBLE_EQ(load->flags.temperature, 1);
}

TEST(LoadLineTest, EachPromptIsAskedOnceUnlessSaidOtherwise) {
  const auto once = parse_load_line(defaults(), R"({"prompts": [[1, 2], [3], "text"]})");
  ASSERT_TRUE(once) << once.error().message();
  EXPECT_EQ(once->flags.requests, 3U);
  ASSERT_EQ(once->prompts.size(), 3U);
  EXPECT_EQ(once->prompts[0], nlohmann::json({1, 2}));
  EXPECT_EQ(once->prompts[2], "text");
  const auto more = parse_load_line(defaults(), R"({"prompts": [[1]], "requests": 7})");
  ASSERT_TRUE(more);
  EXPECT_EQ(more->flags.requests, 7U);
}

TEST(LoadLineTest, RefusalsNameTheMember) {
  EXPECT_THAT(refusal(R"({"request": 3})"), HasSubstr("request"));
  EXPECT_THAT(refusal(R"({"request": 3})"),
              HasSubstr("expected one of concurrency, output_tokens"));
  EXPECT_THAT(refusal(R"({"requests": 0})"), HasSubstr("requests: 0"));
  EXPECT_THAT(refusal(R"({"requests": -1})"), HasSubstr("requests: -1"));
  EXPECT_THAT(refusal(R"({"concurrency": 4097})"), HasSubstr("concurrency: 4097"));
  EXPECT_THAT(refusal(R"({"concurrency": "many"})"), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(refusal(R"({"prompt_tokens": "64:8"})"), HasSubstr("prompt-tokens"));
  EXPECT_THAT(refusal(R"({"output_tokens": [1]})"), HasSubstr("output_tokens"));
  EXPECT_THAT(refusal(R"({"output_tokens": 1.5})"), HasSubstr("output_tokens"));
  EXPECT_THAT(refusal(R"({"temperature": -0.1})"), HasSubstr("temperature"));
  EXPECT_THAT(refusal(R"({"seed": null})"), HasSubstr("seed"));
  EXPECT_THAT(refusal(R"({"shared_prefix": 4294967296})"), HasSubstr("shared_prefix"));
  EXPECT_THAT(refusal(R"({"prompts": []})"), HasSubstr("one at least"));
  EXPECT_THAT(refusal(R"({"prompts": [[[1]]]})"), testing::Not("taken"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("{"), testing::Not("taken"));
  EXPECT_THAT(refusal(R"({"seed": 1, "seed": 2})"), testing::Not("taken"));
}

}  // namespace
}  // namespace paceline::cli
