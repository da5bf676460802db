// Boundary tensors into and out of a stage executor, as its engine and as its link have them.
#include <gmock/gmock.h>

#include "wire/int8_rows.h"
#include "worker/stage_executor_testing.h"

namespace paceline::worker {
namespace {

using testing::ElementsAre;

/// A stage between others.
class MiddleStageTest : public StageExecutorTest {
 protected:
  explicit MiddleStageTest(LinkPrecision links = LinkPrecision::kNative)
      : StageExecutorTest({1, 2}, links) {}

  static wire::Tensor boundary(std::uint64_t row_count) {
    std::vector<float> numbers(row_count * 2, 3.0F);
    return {"hidden",
            ElementType::kF32,
            {row_count, 2},
            wire::SharedBytes::copy_of(std::as_bytes(std::span(numbers)))};
  }
  static wire::Step one_row() {
    auto entry = rows(1, 0, {0});
    entry.tokens.clear();
    return step_of({opened(1)}, {entry});
  }
};

TEST_F(MiddleStageTest, BoundaryTensorsComeInAndGoOut) {
  auto entry = rows(1, 0, {0, 0, 0});
  entry.tokens.clear();
  const auto product = execute(step_of({opened(1)}, {entry}), {boundary(3)});
  ASSERT_TRUE(product) << product.error().message();
  EXPECT_TRUE(product->samples.empty());
  ASSERT_EQ(product->boundaries.size(), 1U);
  const wire::Tensor& tensor = product->boundaries[0];
  EXPECT_EQ(tensor.name, "hidden");
  EXPECT_THAT(tensor.shape, ElementsAre(3, 2));
  EXPECT_EQ(tensor.data.size(), 24U);
  EXPECT_NE(tensor.data, boundary(3).data);
}

TEST_F(MiddleStageTest, BoundariesThatDoNotFitAreRefused) {
  auto named = boundary(1);
  named.name = "other";
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "has no boundary tensor hidden", {named});
  auto typed = boundary(1);
  typed.type = ElementType::kI32;
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "of type i32, f32 is expected", {typed});
  auto shaped = boundary(1);
  shaped.shape = {1, 1, 2};
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "rows of shape [1, 2], [2] is expected",
                 {shaped});
  auto additional = boundary(1);
  additional.name = "more";
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "2 boundary tensors, 1 are expected",
                 {boundary(1), additional});
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "no boundary tensor", {});
}

/// The same over links in int8.
class Int8StageTest : public MiddleStageTest {
 protected:
  Int8StageTest() : MiddleStageTest(LinkPrecision::kInt8) {}
};

TEST_F(Int8StageTest, TheEngineSeesNumbersAndTheLinksCodes) {
  const auto coded = wire::to_int8(boundary(1));
  ASSERT_TRUE(coded) << coded.error().message();
  const auto product = execute(one_row(), {*coded});
  ASSERT_TRUE(product) << product.error().message();
  ASSERT_EQ(product->boundaries.size(), 1U);
  const wire::Tensor& tensor = product->boundaries[0];
  EXPECT_EQ(tensor.name, "hidden");
  EXPECT_EQ(tensor.type, ElementType::kI8);
  EXPECT_THAT(tensor.shape, ElementsAre(1, 4));
  StageExecutor native(std::make_unique<FakeEngine>(LayerRange{1, 2}, kLayers));
  const auto expected = native.execute(StepId(1), one_row(), std::vector{boundary(1)});
  ASSERT_TRUE(expected) << expected.error().message();
  EXPECT_EQ(tensor, wire::to_int8(expected->boundaries[0]).value());
}

TEST_F(Int8StageTest, BoundariesThatDoNotFitAreRefused) {
  expect_refused(one_row(), ErrorCode::kInvalidArgument,
                 "is of type f32 and shape [1, 2], i8 and [rows, 4] are expected", {boundary(1)});
  auto other = wire::to_int8(boundary(1)).value();
  other.name = "other";
  expect_refused(one_row(), ErrorCode::kInvalidArgument, "has no boundary tensor hidden", {other});
}

}  // namespace
}  // namespace paceline::worker
