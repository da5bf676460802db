#include "api/generation_fields.h"

#include <gmock/gmock.h>

#include <limits>

namespace paceline::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Outcome {
  GenerationFields read;
  std::optional<ApiError> problem;
};

Outcome read(const std::string& text) {
  const auto json = parse_body(text);
  EXPECT_TRUE(json.has_value()) << text;
  Outcome outcome;
  Fields fields(*json, outcome.problem);
  outcome.read = read_generation_fields(fields);
  return outcome;
}

void expect_refused(const std::string& text, const std::string& param,
                    const std::string& message = "") {
  const auto outcome = read(text);
  ASSERT_TRUE(outcome.problem.has_value()) << text;
  EXPECT_EQ(outcome.problem->status, 400) << text;
  EXPECT_EQ(outcome.problem->param, param) << text;
  EXPECT_THAT(outcome.problem->message, HasSubstr(message)) << text;
  EXPECT_THAT(outcome.problem->message, HasSubstr(param)) << text;
}

TEST(GenerationFieldsTest, NothingIsTheSchemasDefault) {
  const auto outcome = read("{}");
  ASSERT_FALSE(outcome.problem) << outcome.problem->message;
  const auto spec = outcome.read.sampling_spec({}, 7);
  EXPECT_EQ(spec.temperature, 1);
  EXPECT_EQ(spec.seed, 7U);
  EXPECT_EQ(outcome.read.choices, 1U);
  EXPECT_FALSE(outcome.read.max_tokens);
  EXPECT_FALSE(outcome.read.stream);
  EXPECT_TRUE(outcome.read.skip_special_tokens);
}

TEST(GenerationFieldsTest, EachFieldArrives) {
  const auto outcome = read(R"({
    "model": "m", "stream": true, "stream_options": {"include_usage": true}, "n": 3,
    "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "top_k": 40,
    "repetition_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2, "seed": -1,
    "logit_bias": {"5": -100, "6": 1.5}, "stop_token_ids": [1, 2], "min_tokens": 2,
    "stop": ["a", "b"], "ignore_eos": true, "skip_special_tokens": false, "cache_salt": "s",
    "priority": -3, "user": "u", "metadata": {"a": "b"}, "service_tier": "auto", "store": true,
    "unheard_of": [1, 2]})");
  ASSERT_FALSE(outcome.problem) << outcome.problem->message;
  const GenerationFields& read = outcome.read;
  EXPECT_EQ(read.model, "m");
  EXPECT_TRUE(read.stream && read.include_usage && read.ignore_eos);
  EXPECT_EQ(read.choices, 3U);
  EXPECT_EQ(read.max_tokens, 9U);
  EXPECT_FALSE(read.skip_special_tokens);
  EXPECT_EQ(read.cache_salt, "s");
  EXPECT_EQ(read.priority, -3);
  EXPECT_THAT(read.stop, ElementsAre("a", "b"));
  const auto spec = read.sampling_spec({}, 7);
  EXPECT_EQ(spec.temperature, 0.5);
  EXPECT_EQ(spec.top_p, 0.9);
  EXPECT_EQ(spec.min_p, 0.1);
  EXPECT_EQ(spec.top_k, 40U);
  EXPECT_EQ(spec.repetition_penalty, 1.1);
  EXPECT_EQ(spec.presence_penalty, -1);
  EXPECT_EQ(spec.frequency_penalty, 2);
  EXPECT_EQ(spec.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(spec.min_tokens, 2U);
  EXPECT_THAT(spec.stop_tokens, ElementsAre(1U, 2U));
  EXPECT_THAT(spec.logit_bias,
              ElementsAre(sampling::LogitBias{5, -100}, sampling::LogitBias{6, 1.5}));
  EXPECT_TRUE(sampling::check(spec).has_value());
}

TEST(GenerationFieldsTest, NullsAreAsIfNotThere) {
  const auto outcome = read(R"({"temperature": null, "stop": null, "logit_bias": null, "n": null,
    "max_tokens": null, "stream_options": null, "seed": null, "audio": null, "user": null})");
  EXPECT_FALSE(outcome.problem);
}

TEST(GenerationFieldsTest, ThePublishersDefaultsCountWhereItWantsSampling) {
  SamplingDefaults model;
  model.temperature = 0.6;
  model.top_k = 20;
  const GenerationFields nothing;
  EXPECT_EQ(nothing.sampling_spec(model, 0).temperature, 1);
  model.do_sample = true;
  EXPECT_EQ(nothing.sampling_spec(model, 0).temperature, 0.6);
  EXPECT_EQ(nothing.sampling_spec(model, 0).top_k, 20U);
  GenerationFields asked;
  asked.temperature = 0;
  asked.top_k = 0;
  EXPECT_EQ(asked.sampling_spec(model, 0).temperature, 0) << "the request's own count more";
  EXPECT_EQ(asked.sampling_spec(model, 0).top_k, 0U);
}

TEST(GenerationFieldsTest, NoMassAtAllIsTheLikeliest) {
  const auto spec = read(R"({"top_p": 0})").read.sampling_spec({}, 0);
  EXPECT_EQ(spec.top_k, 1U);
  EXPECT_TRUE(sampling::check(spec).has_value());
  EXPECT_EQ(read(R"({"top_k": -1})").read.sampling_spec({}, 0).top_k, 0U);
}

TEST(GenerationFieldsTest, ValuesOutsideTheirRangeAreRefusedByName) {
  expect_refused(R"({"temperature": -1})", "temperature", "from 0 to 2, got -1");
  expect_refused(R"({"temperature": 2.01})", "temperature");
  expect_refused(R"({"temperature": "0.5"})", "temperature", "got \"0.5\"");
  expect_refused(R"({"temperature": true})", "temperature");
  expect_refused(R"({"top_p": 1.5})", "top_p");
  expect_refused(R"({"min_p": -0.1})", "min_p");
  expect_refused(R"({"top_k": -2})", "top_k");
  expect_refused(R"({"top_k": 1.5})", "top_k");
  expect_refused(R"({"repetition_penalty": 0})", "repetition_penalty");
  expect_refused(R"({"presence_penalty": 2.5})", "presence_penalty");
  expect_refused(R"({"frequency_penalty": -3})", "frequency_penalty");
  expect_refused(R"({"n": 0})", "n");
  expect_refused(R"({"n": 17})", "n", "1 to 16");
  expect_refused(R"({"n": "2"})", "n");
  expect_refused(R"({"max_tokens": -1})", "max_tokens");
  expect_refused(R"({"max_completion_tokens": 0})", "max_completion_tokens");
  expect_refused(R"({"max_tokens": 1, "max_completion_tokens": 2})", "max_tokens", "differs");
  expect_refused(R"({"max_tokens": 1, "min_tokens": 2})", "min_tokens");
  expect_refused(R"({"seed": 1.5})", "seed");
  expect_refused(R"({"seed": 18446744073709551615})", "seed");
  expect_refused(R"({"stream": "yes"})", "stream");
  expect_refused(R"({"stream_options": {}})", "stream_options", "stream true");
  expect_refused(R"({"stream": true, "stream_options": {"include_usage": 1}})",
                 "stream_options.include_usage");
  expect_refused(R"({"user": 5})", "user");
  expect_refused(R"({"metadata": {"a": 1}})", "metadata");
  expect_refused(R"({"service_tier": "golden"})", "service_tier");
  expect_refused(R"({"priority": 1e9})", "priority");
  expect_refused(R"({"model": 5})", "model");
}

TEST(GenerationFieldsTest, StopsAndBiases) {
  EXPECT_THAT(read(R"({"stop": "x"})").read.stop, ElementsAre("x"));
  EXPECT_FALSE(read(R"({"stop": []})").problem);
  expect_refused(R"({"stop": ""})", "stop", "empty");
  expect_refused(R"({"stop": ["a", 1]})", "stop");
  expect_refused(R"({"stop": {}})", "stop");
  expect_refused(R"({"stop": [")" + std::string(1025, 'x') + R"("]})", "stop");
  std::string many = R"({"stop": ["a")";
  for (int i = 0; i < 16; ++i) many += R"(,"a")";
  expect_refused(many + "]}", "stop", "at most 16");
  expect_refused(R"({"logit_bias": {"x": 1}})", "logit_bias", "token ids");
  expect_refused(R"({"logit_bias": {"-1": 1}})", "logit_bias");
  expect_refused(R"({"logit_bias": {"1": 101}})", "logit_bias", "-100 to 100");
  expect_refused(R"({"logit_bias": {"1": "1"}})", "logit_bias");
  expect_refused(R"({"logit_bias": [1]})", "logit_bias");
  expect_refused(R"({"stop_token_ids": [-1]})", "stop_token_ids");
  expect_refused(R"({"stop_token_ids": [4294967296]})", "stop_token_ids");
  expect_refused(R"({"stop_token_ids": 5})", "stop_token_ids");
}

TEST(GenerationFieldsTest, TokensAreHeldAgainstTheVocabulary) {
  const auto biased = read(R"({"logit_bias": {"100": 1}})").read;
  EXPECT_FALSE(check_tokens(biased, 101));
  EXPECT_EQ(check_tokens(biased, 100).value().param, "logit_bias");
  const auto stopped = read(R"({"stop_token_ids": [100]})").read;
  EXPECT_FALSE(check_tokens(stopped, 101));
  EXPECT_EQ(check_tokens(stopped, 100).value().param, "stop_token_ids");
}

TEST(GenerationFieldsTest, WhatWouldChangeTheAnswerAndIsNotOfferedIsRefused) {
  for (const char* field : {"audio", "web_search_options", "suffix", "functions", "function_call",
                            "guided_json", "use_beam_search", "prompt_logprobs", "bad_words",
                            "chat_template", "truncate_prompt_tokens"}) {
    const auto outcome = read(R"({")" + std::string(field) + R"(": "on"})");
    ASSERT_TRUE(outcome.problem) << field;
    EXPECT_EQ(outcome.problem->param, field);
    EXPECT_EQ(outcome.problem->code, "unsupported_parameter") << field;
  }
  EXPECT_FALSE(read(R"({"use_beam_search": false, "suffix": "", "functions": []})").problem)
      << "as clients spell a default";
}

TEST(GenerationFieldsTest, TheFirstProblemIsTold) {
  expect_refused(R"({"n": 0, "temperature": -1, "stop": 5})", "n");
}

TEST(ParseBodyTest, WhatIsNoObjectOrHasNoBoundsIsRefused) {
  const auto message = [](const std::string& text) {
    const auto parsed = parse_body(text);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("not JSON"));
  EXPECT_THAT(message("[1]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(message(R"({"temperature": NaN})"), HasSubstr("byte"));
  EXPECT_THAT(message(R"({"temperature": 1e999})"), HasSubstr("not JSON"));
  EXPECT_THAT(message("{\"a\": \"\xFF\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(message(R"({"a": 1, "a": 2})"), HasSubstr("twice"));
  EXPECT_THAT(message(std::string(1000000, '[')), HasSubstr("nested"));
  EXPECT_EQ(message("{}"), "");
}

}  // namespace
}  // namespace paceline::api
