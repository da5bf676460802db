#include "sampling/sampling_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

namespace paceline::sampling {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string refusal(const std::function<void(SamplingSpec&)>& change) {
  SamplingSpec spec;
  change(spec);
  const auto result = check(spec, 100);
  if (!result) {
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
  }
  return result ? "accepted" : result.error().message();
}

TEST(SamplingSpecTest, WhatIsOutsideItsRangeIsRefusedByName) {
  using Spec = SamplingSpec;
  const std::vector<std::pair<std::function<void(Spec&)>, std::string>> cases = {
      {[](Spec&) {}, "accepted"},
      {[](Spec& s) { s.temperature = -1; }, "temperature: expected a number of at least 0, got -1"},
      {[](Spec& s) { s.top_p = 0; }, "top_p: expected a number above 0 and of at most 1, got 0"},
      {[](Spec& s) { s.min_p = 1.5; }, "min_p: expected a number from 0 to 1, got 1.5"},
      {[](Spec& s) { s.min_p = kNan; }, "min_p: expected a number from 0 to 1, got nan"},
      {[](Spec& s) { s.min_p = 1; }, "accepted"},
      {[](Spec& s) { s.repetition_penalty = 0; },
       "repetition_penalty: expected a number from 0.01 to 100, got 0"},
      {[](Spec& s) { s.presence_penalty = 2.5; },
       "presence_penalty: expected a number from -2 to 2, got 2.5"},
      {[](Spec& s) { s.frequency_penalty = -3; },
       "frequency_penalty: expected a number from -2 to 2, got -3"},
      {[](Spec& s) {
         s.logit_bias = {{1, 101}};
       },
       "logit_bias: expected a number from -100 to 100, got 101"},
      {[](Spec& s) {
         s.logit_bias = {{1, kInfinity}};
       },
       "logit_bias: expected a number from -100 to 100, got inf"},
      {[](Spec& s) {
         s.logit_bias = {{1, -kInfinity}};
       },
       "accepted"},
      {[](Spec& s) {
         s.logit_bias = {{99, 1}, {100, 1}};
       },
       "logit_bias: token 100 is outside the vocabulary of 100"},
      {[](Spec& s) {
         s.stop_tokens = {7, 100};
       },
       "stop_tokens: token 100 is outside the vocabulary of 100"},
      {[](Spec& s) {
         s.grammar = {GrammarKind::kRegex, std::string(65536, 'a')};
       },
       "accepted"},
      {[](Spec& s) {
         s.grammar = {GrammarKind::kRegex, std::string(65537, 'a')};
       },
       "grammar: expected at most 65536 bytes, got 65537"},
      {[](Spec& s) {
         s.grammar = GrammarSpec();
         s.min_tokens = 3;
       },
       "min_tokens: expected 0 with a grammar, got 3"},
      {[](Spec& s) { s.logprobs = 20; }, "accepted"},
      {[](Spec& s) { s.logprobs = 21; }, "logprobs: expected at most 20, got 21"},
  };
  for (const auto& [change, expected] : cases) EXPECT_EQ(refusal(change), expected);
}

TEST(SamplingSpecTest, OnlyPenaltiesAndGrammarsNeedTheHistory) {
  SamplingSpec spec;
  spec.temperature = 1;
  spec.logit_bias = {{1, 1}};
  spec.min_tokens = 5;
  EXPECT_FALSE(spec.needs_history());
  for (double SamplingSpec::*field :
       {&SamplingSpec::repetition_penalty, &SamplingSpec::presence_penalty,
        &SamplingSpec::frequency_penalty}) {
    SamplingSpec penalized = spec;
    penalized.*field = 0.5;
    EXPECT_TRUE(penalized.needs_history() && penalized.has_penalties());
  }
  spec.min_tokens = 0;
  spec.grammar = GrammarSpec();
  EXPECT_TRUE(spec.needs_history() && !spec.has_penalties());
}

}  // namespace
}  // namespace paceline::sampling
