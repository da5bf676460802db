#include "cli/weight_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace paceline::cli {
namespace {

using compiler::WeightKind;

/// What the flags come to; the text of CLI11's complaint where it has one.
Result<compiler::WeightOptions> parsed(const std::string& line) {
  CLI::App app;
  const auto flags = std::make_shared<WeightFlags>();
  add_weight_flags(app, flags);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  return weight_options(*flags);
}

TEST(WeightFlagsTest, WithoutAnyTheSourceDecides) {
  const auto options = parsed("");
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->weights, std::nullopt);
  EXPECT_EQ(options->embedding, std::nullopt);
  EXPECT_EQ(options->head, std::nullopt);
  EXPECT_EQ(options->group, 128U);
  EXPECT_TRUE(options->search);
  EXPECT_TRUE(options->int8_layers.empty());
}

TEST(WeightFlagsTest, EachIsTaken) {
  const auto options = parsed(
      "--weights int4-asym --embedding f16 --head int8 --group 64 --int8-layers 0,5-7,29 "
      "--search off");
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->weights, WeightKind::kInt4Asymmetric);
  EXPECT_EQ(options->embedding, WeightKind::kF16);
  EXPECT_EQ(options->head, WeightKind::kInt8);
  EXPECT_EQ(options->group, 64U);
  EXPECT_FALSE(options->search);
  EXPECT_EQ(options->int8_layers, (std::set<std::uint32_t>{0, 5, 6, 7, 29}));
  EXPECT_TRUE(parsed("--search on")->search);
}

TEST(WeightFlagsTest, WhatIsWrongIsNamed) {
  for (const char* line : {"--weights int3", "--group 100", "--head q4", "--search maybe",
                           "--int8-layers a", "--int8-layers 5-3", "--int8-layers 1,,2",
                           "--int8-layers 99999999999", "--int8-layers 0-4000000000"}) {
    const auto refused = parsed(line);
    ASSERT_FALSE(refused) << line;
    const std::string flag = std::string(line).substr(0, std::string(line).find(' '));
    EXPECT_NE(refused.error().message().find(flag), std::string::npos) << refused.error().message();
  }
}

}  // namespace
}  // namespace paceline::cli
