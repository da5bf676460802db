#include <gtest/gtest.h>

#include <array>

#include "base/checked_math.h"
#include "base/element_type.h"
#include "base/engine_kind.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/ids.h"
#include "base/profile.h"

namespace paceline {
namespace {

TEST(ErrorTest, ContextGoesBeforeTheMessage) {
  const Error error = Error(ErrorCode::kNotFound, "no such file").with_context("a.gguf");
  EXPECT_EQ(error.message(), "a.gguf: no such file");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
}

TEST(ErrorTest, EveryCodeKeepsItsNumberAndUnknownNumbersBecomeUnknown) {
  for (std::uint32_t number = 0; number < 15; ++number) {
    EXPECT_EQ(static_cast<std::uint32_t>(error_code_from_number(number)), number);
    EXPECT_FALSE(to_string(error_code_from_number(number)).empty());
  }
  EXPECT_EQ(error_code_from_number(15), ErrorCode::kUnknown);
  EXPECT_EQ(error_code_from_number(0xffffffffU), ErrorCode::kUnknown);
}

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  PACELINE_ASSIGN_OR_RETURN(const int once, half(value));
  PACELINE_ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

TEST(ErrorTest, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message(), "3 is odd");
}

TEST(CheckedMathTest, OverflowIsNullopt) {
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_multiply(1ULL << 42, 1ULL << 22), std::nullopt);
  const std::uint64_t shape[] = {(1ULL << 42) + 1, 1ULL << 40};
  EXPECT_EQ(checked_product(shape), std::nullopt);
  const std::uint64_t small[] = {2, 3, 4};
  EXPECT_EQ(checked_product(small), 24);
}

TEST(ElementTypeTest, NumbersNamesAndSizes) {
  EXPECT_EQ(element_type_from_number(0), std::nullopt);
  EXPECT_EQ(element_type_from_number(8), std::nullopt);
  EXPECT_EQ(element_type_from_number(3), ElementType::kBF16);
  EXPECT_EQ(to_string(ElementType::kBF16), "bf16");
  EXPECT_EQ(size_bytes(ElementType::kI64), 8U);
}

TEST(ProfileTest, NamesGoBothWays) {
  EXPECT_EQ(profile_from_string(to_string(Profile::kExact)), Profile::kExact);
  EXPECT_EQ(profile_from_string(to_string(Profile::kFast)), Profile::kFast);
  EXPECT_EQ(profile_from_string("quick"), std::nullopt);
}

TEST(EngineKind, NamesAreReadBack) {
  for (const EngineKind kind : {EngineKind::kPaged, EngineKind::kStateful}) {
    EXPECT_EQ(engine_kind_from_string(to_string(kind)), kind);
  }
  EXPECT_EQ(to_string(EngineKind::kStateful), "stateful");
  EXPECT_EQ(engine_kind_from_string("packed"), std::nullopt);
}

TEST(HexTest, TwoDigitsForEachByte) {
  const std::array<std::uint8_t, 4> bytes = {0, 9, 0xA5, 0xFF};
  EXPECT_EQ(to_hex(bytes), "0009a5ff");
  EXPECT_EQ(to_hex({}), "");
}

}  // namespace
}  // namespace paceline
