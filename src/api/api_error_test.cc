#include "api/api_error.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace paceline::api {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ApiErrorTest, EachCodeHasAStatusThatClientsActOn) {
  const auto status = [](ErrorCode code) { return from_error(Error(code, "x")).status; };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(status(ErrorCode::kOutOfRange), 400);
  EXPECT_EQ(status(ErrorCode::kNotFound), 404);
  EXPECT_EQ(status(ErrorCode::kPermissionDenied), 403);
  EXPECT_EQ(status(ErrorCode::kResourceExhausted), 429);
  EXPECT_EQ(status(ErrorCode::kUnavailable), 503);
  EXPECT_EQ(status(ErrorCode::kDeadlineExceeded), 504);
  EXPECT_EQ(status(ErrorCode::kInternal), 500);
  for (int number = 0; number < 15; ++number) {
    const ErrorCode code = error_code_from_number(static_cast<std::uint32_t>(number));
    const ApiError error = from_error(Error(code, "x"));
    EXPECT_GE(error.status, 400) << to_string(code);
    EXPECT_FALSE(error.type.empty()) << to_string(code);
    EXPECT_EQ(error.status == 429 || error.status == 503, error.retry_after_s > 0)
        << to_string(code);
  }
}

TEST(ApiErrorTest, WhatTheServerIsToBlameForIsToldWithoutNames) {
  const Error error(ErrorCode::kUnavailable, "worker 10.1.2.3:7400: is gone");
  EXPECT_THAT(from_error(error).message, Not(HasSubstr("10.1.2.3")));
  EXPECT_THAT(from_error(error).message, HasSubstr("unavailable"));
  const Error users(ErrorCode::kInvalidArgument, "the prompt has token 7");
  EXPECT_EQ(from_error(users).message, "the prompt has token 7");
}

TEST(ApiErrorTest, TheBodyHasTheFourFieldsWithNullForNone) {
  EXPECT_EQ(to_json(invalid_field("n", "expected 1")).dump(),
            R"({"error":{"message":"n: expected 1","type":"invalid_request_error","param":"n",)"
            R"("code":"invalid_value"}})");
  const auto json = to_json(from_error(Error(ErrorCode::kInvalidArgument, "x")));
  EXPECT_TRUE(json["error"]["param"].is_null());
  EXPECT_TRUE(json["error"]["code"].is_null());
}

TEST(ApiErrorTest, WhoLoadsModelsIsToldWhy) {
  const ApiError full = load_refused("m", Error(ErrorCode::kResourceExhausted, "needs 9 MiB"));
  EXPECT_EQ(full.status, 400) << "not 429: nobody is to try again by himself";
  EXPECT_EQ(full.code, "insufficient_memory");
  EXPECT_EQ(full.message, "The model 'm': needs 9 MiB");
  EXPECT_FALSE(full.may_retry);
  const ApiError gone = load_refused("m", Error(ErrorCode::kUnavailable, "worker x: is gone"));
  EXPECT_EQ(gone.status, 503);
  EXPECT_THAT(gone.message, HasSubstr("worker x"));
  EXPECT_FALSE(gone.may_retry);
  EXPECT_EQ(load_refused("m", Error(ErrorCode::kNotFound, "x")).code, "model_not_found");
  EXPECT_EQ(not_loaded("m", "unloaded").code, "model_not_loaded");
  EXPECT_FALSE(not_loaded("m", "unloaded").may_retry);
}

TEST(ApiErrorTest, NamedErrors) {
  EXPECT_EQ(unknown_model("x").status, 404);
  EXPECT_EQ(unknown_model("x").code, "model_not_found");
  EXPECT_LT(unknown_model(std::string(100000, 'x')).message.size(), 400U);
  EXPECT_EQ(context_exceeded(5000, 4096).code, "context_length_exceeded");
  const ApiError limit = limit_exceeds_context(4000, "max_output_tokens", 100, 4096);
  EXPECT_EQ(limit.code, "context_length_exceeded");
  EXPECT_EQ(limit.param, "max_output_tokens");
  EXPECT_THAT(limit.message, HasSubstr("max_output_tokens 100"));
  EXPECT_EQ(still_loading("x").status, 503);
  EXPECT_GT(still_loading("x").retry_after_s, 0);
  EXPECT_EQ(error_headers(still_loading("x")).at("Retry-After"), "5");
  EXPECT_TRUE(error_headers(invalid_field("a", "b")).empty());
  EXPECT_EQ(error_headers(from_error(Error(ErrorCode::kInternal, "x"))).at("x-should-retry"),
            "false");
  EXPECT_EQ(unsupported_field("audio", "is not offered").code, "unsupported_parameter");
}

}  // namespace
}  // namespace paceline::api
