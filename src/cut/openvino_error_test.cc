#include "cut/openvino_error.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace paceline::cut {
namespace {

Status refuse() { return fail(ErrorCode::kNotFound, "no such thing"); }

TEST(OpenVinoErrorTest, MessagesBecomeOneLine) {
  EXPECT_EQ(one_line(std::runtime_error("Exception from src/a.cc:12:\n a\n\n b\t\r\n c\n")),
            "a b c");
  EXPECT_EQ(one_line(std::runtime_error(" \n")), "no message");
  EXPECT_EQ(one_line(std::runtime_error(std::string(1000, 'x'))), std::string(400, 'x') + "...");
}

TEST(OpenVinoErrorTest, ExceptionsBecomeErrorsAndValuesPass) {
  const auto failed = catch_openvino("here", []() -> int { throw std::runtime_error("it broke"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "here: it broke");
  EXPECT_EQ(failed.error().code(), ErrorCode::kInternal);
  const auto exhausted = catch_openvino("here", [] { throw std::bad_alloc(); });
  ASSERT_FALSE(exhausted);
  EXPECT_EQ(exhausted.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(catch_openvino("here", [] { return 5; }).value(), 5);
  EXPECT_TRUE(catch_openvino("here", [] {}));
}

TEST(OpenVinoErrorTest, AResultIsNotWrappedAgain) {
  const Status refused = catch_openvino("here", refuse);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "no such thing");
  const Result<int> seven = catch_openvino("here", [] { return Result<int>(7); });
  EXPECT_EQ(seven.value(), 7);
}

}  // namespace
}  // namespace paceline::cut
