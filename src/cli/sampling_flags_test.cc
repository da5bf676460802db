#include "cli/sampling_flags.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline::cli {
namespace {

TEST(ParseLogitBiasTest, ATokenAndANumber) {
  EXPECT_EQ(parse_logit_bias("5:-1.5").value(), (sampling::LogitBias{5, -1.5F}));
  EXPECT_EQ(parse_logit_bias("0:3").value(), (sampling::LogitBias{0, 3.0F}));
  const auto forbidden = parse_logit_bias("70000:-inf");
  ASSERT_TRUE(forbidden);
  EXPECT_EQ(forbidden->token, 70000U);
  EXPECT_TRUE(std::isinf(forbidden->bias) && forbidden->bias < 0);
}

TEST(ParseLogitBiasTest, AllElseIsRefusedByName) {
  for (const std::string text :
       {"", "5", "5:", ":1", "a:1", "5:b", "-1:2", "5:1 ", "5: 1", "4294967296:1", "5:1:2"}) {
    const auto refused = parse_logit_bias(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(refused.error().message().starts_with("--logit-bias " + text + ": expected"));
  }
}

SamplingDefaults defaults_of_a_package() {
  SamplingDefaults defaults;
  defaults.do_sample = true;
  defaults.temperature = 0.6;
  defaults.top_k = 20;
  defaults.top_p = 0.95;
  defaults.min_p = 0.05;
  defaults.repetition_penalty = 1.1;
  return defaults;
}

TEST(SamplingFlagsTest, ThePackageSaysWhatNoFlagSays) {
  CLI::App app;
  SamplingFlags flags;
  flags.add_to(app);
  app.parse("--top-k 7 --min-p 0");
  const auto spec = flags.sampling_spec(defaults_of_a_package()).value();
  EXPECT_EQ(spec.temperature, 0.6);
  EXPECT_EQ(spec.top_k, 7U);
  EXPECT_EQ(spec.top_p, 0.95);
  EXPECT_EQ(spec.min_p, 0.0);
  EXPECT_EQ(spec.repetition_penalty, 1.1);
  app.parse("--temperature 0 --top-p 1 --repetition-penalty 1");
  const auto greedy = flags.sampling_spec(defaults_of_a_package()).value();
  EXPECT_EQ(greedy.temperature, 0.0);
  EXPECT_EQ(greedy.top_p, 1.0);
  EXPECT_EQ(greedy.repetition_penalty, 1.0);
}

TEST(SamplingFlagsTest, APackageThatDoesNotSampleSaysNothing) {
  const SamplingFlags flags;
  SamplingDefaults defaults = defaults_of_a_package();
  defaults.do_sample = false;
  EXPECT_EQ(flags.sampling_spec(defaults).value(), sampling::SamplingSpec());
  defaults.do_sample = std::nullopt;
  EXPECT_EQ(flags.sampling_spec(defaults).value(), sampling::SamplingSpec());
  SamplingDefaults only;
  only.do_sample = true;
  EXPECT_EQ(flags.sampling_spec(only).value().temperature, 1.0);
  EXPECT_EQ(flags.sampling_spec(only).value().top_k, 0U);
}

TEST(SamplingFlagsTest, FlagsMakeTheSpecification) {
  CLI::App app;
  SamplingFlags flags;
  flags.add_to(app);
  app.parse(
      "-n 7 --temperature 0.5 --min-p 0.1 --repetition-penalty 1.2 --presence-penalty -0.5 "
      "--frequency-penalty 0.25 --logit-bias 3:1,4:-inf --logit-bias 9:-2 --stop-token 8 "
      "--stop-token 9 --min-tokens 3 --stop xyz");
  const auto spec = flags.sampling_spec();
  ASSERT_TRUE(spec) << spec.error().message();
  EXPECT_EQ(flags.max_tokens, 7U);
  EXPECT_EQ(flags.stop, std::vector<std::string>{"xyz"});
  EXPECT_EQ(spec->temperature, 0.5);
  EXPECT_EQ(spec->min_p, 0.1);
  EXPECT_EQ(spec->repetition_penalty, 1.2);
  EXPECT_EQ(spec->presence_penalty, -0.5);
  EXPECT_EQ(spec->frequency_penalty, 0.25);
  ASSERT_EQ(spec->logit_bias.size(), 3U);
  EXPECT_EQ(spec->logit_bias[2], (sampling::LogitBias{9, -2.0F}));
  EXPECT_EQ(spec->stop_tokens, (std::vector<std::uint32_t>{8, 9}));
  EXPECT_EQ(spec->min_tokens, 3U);
  flags.logit_bias = {"3:200"};
  EXPECT_EQ(flags.sampling_spec().error().message(),
            "logit_bias: expected a number from -100 to 100, got 200");
}

TEST(SamplingFlagsTest, AServerIsToldWhatWasGiven) {
  SamplingFlags flags;
  CLI::App app;
  flags.add_to(app);
  app.parse("--temperature 0.5 --seed 7 --stop X --logit-bias 5:-inf,6:2");
  const auto fields = flags.request_fields();
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->dump(), R"({"max_tokens":256,"temperature":0.5,"seed":7,"stop":["X"],)"
                            R"("logit_bias":{"5":-100.0,"6":2.0}})");
  SamplingFlags bad;
  CLI::App other;
  bad.add_to(other);
  other.parse("--temperature -1");
  EXPECT_FALSE(bad.request_fields());
}

}  // namespace
}  // namespace paceline::cli
