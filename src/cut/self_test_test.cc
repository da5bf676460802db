// The self-test passes right cuts, within its memory, and tells wrong ones.
#include "cut/self_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <openvino/op/constant.hpp>

#include "cut/test_models.h"

namespace paceline::cut {
namespace {

class SelfTestTest : public testing::Test {
 protected:
  /// A stage with one value of its largest constant changed by 1 %.
  Result<std::shared_ptr<ov::Model>> perturbed(LayerRange range) const {
    PACELINE_ASSIGN_OR_RETURN(auto stage, analysis_.cut(range));
    std::shared_ptr<ov::op::v0::Constant> largest;
    for (const auto& node : stage->get_ordered_ops()) {
      const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node);
      if (!constant || constant->get_element_type() != ov::element::f32) continue;
      if (!largest || constant->get_byte_size() > largest->get_byte_size()) largest = constant;
    }
    auto values = largest->cast_vector<float>();
    values[0] = values[0] * 1.01F + 0.01F;
    const auto changed =
        ov::op::v0::Constant::create(ov::element::f32, largest->get_shape(), values);
    for (auto input : largest->output(0).get_target_inputs()) input.replace_source_output(changed);
    return stage;
  }

  ov::Core core_;
  std::shared_ptr<ov::Model> model_ = handmade_decoder({.layers = 4});
  DecoderAnalysis analysis_ = DecoderAnalysis::analyse(model_).value();
};

TEST_F(SelfTestTest, PassesARightCut) {
  std::uint32_t calls = 0;
  std::uint32_t total = 0;
  const auto report =
      self_test(core_, analysis_, {.progress = [&](std::uint32_t done, std::uint32_t of) {
                  EXPECT_LT(done, of);
                  ++calls;
                  total = of;
                  return true;
                }});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->whole_checked);
  EXPECT_EQ(report->largest_difference, 0.0);
  EXPECT_EQ(calls, total);
  EXPECT_EQ(total, 1U + 4U + 2U);  // the whole, four single layers, two halves
}

TEST_F(SelfTestTest, EndsWhenAsked) {
  std::uint32_t calls = 0;
  const auto report = self_test(
      core_, analysis_, {.progress = [&](std::uint32_t, std::uint32_t) { return ++calls < 3; }});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(calls, 3U);
}

TEST_F(SelfTestTest, ChecksWindowsWhereTheWholeDoesNotFit) {
  const std::uint64_t whole = analysis_.constant_bytes({0, 4}).value();
  const auto report = self_test(core_, analysis_, {.memory_bytes = 2 * whole});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_FALSE(report->whole_checked);
  EXPECT_EQ(report->windows_checked, 3U);
  EXPECT_EQ(report->window_forms, 3U);
  EXPECT_EQ(report->windows_skipped, 0U);
}

TEST_F(SelfTestTest, RunsWindowsOfOneFormOnce) {
  const auto model = handmade_decoder({.layers = 9});
  const auto analysis = DecoderAnalysis::analyse(model).value();
  std::uint32_t runs = 0;
  const auto report = self_test(
      core_, analysis,
      {.memory_bytes = analysis.constant_bytes({0, 9}).value(), .after_model = [&] { ++runs; }});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_FALSE(report->whole_checked);
  EXPECT_EQ(report->windows_checked, 8U);
  EXPECT_EQ(report->window_forms, 3U);  // the first, the last, one between them
  EXPECT_EQ(runs, 7U);                  // three layers, uncut and in three stages; two in two
}

TEST_F(SelfTestTest, SkipsWindowsThatDoNotFit) {
  const auto report = self_test(core_, analysis_, {.memory_bytes = 1});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->windows_checked, 0U);
  EXPECT_EQ(report->windows_skipped, 3U);
}

TEST_F(SelfTestTest, TellsWhichLayersDiffer) {
  const auto wrong = [&](LayerRange range) {
    return range == LayerRange{2, 3} ? perturbed(range) : analysis_.cut(range);
  };
  for (const std::uint64_t memory :
       {std::uint64_t{1} << 40, 2 * analysis_.constant_bytes({0, 4}).value()}) {
    const auto report = self_test(core_, analysis_, {.memory_bytes = memory, .make_stage = wrong});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code(), ErrorCode::kInternal);
    EXPECT_THAT(report.error().message(), testing::HasSubstr("layers 1..3"));
  }
}

TEST_F(SelfTestTest, TellsALayerThatIsLeftOut) {
  const auto wrong = [&](LayerRange range) {
    return range == LayerRange{1, 2} ? analysis_.cut({2, 3}) : analysis_.cut(range);
  };
  EXPECT_FALSE(self_test(core_, analysis_, {.make_stage = wrong}));
}

TEST_F(SelfTestTest, PassesAnErrorOfTheCutOn) {
  const auto broken = [](LayerRange) -> Result<std::shared_ptr<ov::Model>> {
    return fail(ErrorCode::kUnimplemented, "cannot cut");
  };
  const auto report = self_test(core_, analysis_, {.make_stage = broken});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message(), "cannot cut");
}

TEST(LargestDifferenceTest, ComparesBitsAndLeavesPaddingOut) {
  const BatchSchedule schedule = {{1, 0}, {2}};
  ov::Tensor a(ov::element::f32, {2, 2, 1});
  ov::Tensor b(ov::element::f32, {2, 2, 1});
  for (std::size_t i = 0; i < 4; ++i) {
    a.data<float>()[i] = b.data<float>()[i] = static_cast<float>(i);
  }
  b.data<float>()[0] = NAN;  // row 0, column 0 is padding
  EXPECT_EQ(largest_difference(schedule, {a}, {b}).value(), 0.0);
  b.data<float>()[2] = 2.5F;
  EXPECT_EQ(largest_difference(schedule, {a}, {b}).value(), 0.5);
  b.data<float>()[3] = NAN;
  EXPECT_TRUE(std::isinf(largest_difference(schedule, {a}, {b}).value()));
}

TEST(LargestDifferenceTest, RefusesOutputsThatProveNothing) {
  const BatchSchedule schedule = {{0, 0}, {1}};
  ov::Tensor zeros(ov::element::f32, {2, 1, 1});
  std::fill_n(zeros.data<float>(), 2, 0.0F);
  EXPECT_EQ(largest_difference(schedule, {zeros}, {zeros}).error().code(),
            ErrorCode::kFailedPrecondition);
  ov::Tensor infinite(ov::element::f32, {2, 1, 1});
  std::fill_n(infinite.data<float>(), 2, INFINITY);
  EXPECT_EQ(largest_difference(schedule, {infinite}, {infinite}).error().code(),
            ErrorCode::kFailedPrecondition);
  ov::Tensor longer(ov::element::f32, {2, 1, 2});
  EXPECT_EQ(largest_difference(schedule, {zeros}, {longer}).error().code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace paceline::cut
