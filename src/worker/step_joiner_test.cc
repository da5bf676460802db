#include "worker/step_joiner.h"

#include <gmock/gmock.h>

#include "wire/step_parts.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

constexpr TimePoint kBegin{std::chrono::hours(1)};

/// Step `id` of the last stage: a row, sampled, of a sequence that it opens.
wire::Frame whole(std::uint64_t id) {
  wire::Step step;
  step.sequences = {{SequenceId(id), 0, 1, {}, {0}, {}, {{BlockId(0)}}}};
  step.opened.emplace_back();
  step.opened.front().sequence = SequenceId(id);
  step.opened.front().sampling.seed = 100 + id;
  return {{ChainId(1), Epoch(1), StageId(2), StepId(id)}, std::move(step), {}};
}

class StepJoinerTest : public testing::Test {
 protected:
  std::vector<JoinedStep> add_step(std::uint64_t id) {
    wire::Frame frame = whole(id);
    (void)wire::split_sampling(std::get<wire::Step>(frame.message));
    return good(joiner_.add_step(std::move(frame), now_));
  }
  std::vector<JoinedStep> add_sampling(std::uint64_t id) {
    wire::Frame frame = whole(id);
    auto sampling = wire::split_sampling(std::get<wire::Step>(frame.message));
    return good(joiner_.add_sampling(StepId(id), std::move(sampling)));
  }
  static std::vector<JoinedStep> good(Result<std::vector<JoinedStep>> steps) {
    EXPECT_TRUE(steps) << steps.error().message();
    return steps ? *std::move(steps) : std::vector<JoinedStep>();
  }
  static void expect_whole(const std::vector<JoinedStep>& steps,
                           const std::vector<std::uint64_t>& ids) {
    ASSERT_EQ(steps.size(), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_FALSE(steps[i].failure) << steps[i].failure->message();
      EXPECT_EQ(steps[i].frame, whole(ids[i]));
    }
  }
  static void expect_failed(const JoinedStep& step, std::uint64_t id, const std::string& why) {
    EXPECT_EQ(step.frame.address.step.value(), id);
    ASSERT_TRUE(step.failure);
    EXPECT_EQ(step.failure->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(step.failure->message(), HasSubstr(why));
  }

  StepJoiner joiner_;
  TimePoint now_ = kBegin;
};

TEST_F(StepJoinerTest, WhicheverComesFirstWaitsForTheOther) {
  expect_whole(add_step(1), {});
  expect_whole(add_sampling(1), {1});
  expect_whole(add_sampling(2), {});
  expect_whole(add_sampling(3), {});
  expect_whole(add_step(2), {2});
  expect_whole(add_step(3), {3});
  expect_whole(add_step(5), {});
  now_ += std::chrono::seconds(1);
  expect_whole(add_step(8), {});
  expect_whole(add_sampling(5), {5});
  const auto last = add_sampling(8);
  expect_whole(last, {8});
  EXPECT_EQ(last[0].received, now_);
}

TEST_F(StepJoinerTest, AStepWhoseSamplingWasPassedOverFails) {
  add_step(1);
  add_step(2);
  add_step(3);
  const auto steps = add_sampling(3);
  ASSERT_EQ(steps.size(), 3U);
  expect_failed(steps[0], 1, "did not come, but step 3's did");
  expect_failed(steps[1], 2, "did not come, but step 3's did");
  EXPECT_FALSE(steps[2].failure);
  EXPECT_EQ(steps[2].frame, whole(3));
}

TEST_F(StepJoinerTest, SamplingWhoseStepWasPassedOverIsForgotten) {
  add_sampling(1);
  add_sampling(2);
  expect_whole(add_step(3), {});
  expect_whole(add_sampling(3), {3});
}

TEST_F(StepJoinerTest, AStepWhoseSamplingDoesNotComeFailsInTime) {
  add_step(1);
  now_ += std::chrono::seconds(6);
  add_step(2);
  expect_whole(joiner_.expire(now_), {});
  now_ += std::chrono::seconds(5);
  const auto steps = joiner_.expire(now_);
  ASSERT_EQ(steps.size(), 1U);
  expect_failed(steps[0], 1, "has not come from the coordinator for 10 s");
  expect_whole(add_sampling(2), {2});
}

TEST_F(StepJoinerTest, PartsThatDoNotFitFailTheStep) {
  add_step(1);
  wire::Frame other = whole(2);
  auto sampling = wire::split_sampling(std::get<wire::Step>(other.message));
  const auto steps = good(joiner_.add_sampling(StepId(1), std::move(sampling)));
  ASSERT_EQ(steps.size(), 1U);
  ASSERT_TRUE(steps[0].failure);
  EXPECT_EQ(steps[0].failure->code(), ErrorCode::kInvalidArgument);
}

TEST_F(StepJoinerTest, WholeStepsPassWhereNothingComesApart) {
  expect_whole(good(joiner_.add_step(whole(1), now_)), {1});
  add_sampling(2);
  const auto refused = joiner_.add_step(whole(2), now_);
  ASSERT_FALSE(refused) << "what lies before the last stage would choose how it samples";
  EXPECT_EQ(refused.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("step 2 says how it is sampled"));
}

TEST_F(StepJoinerTest, NoMoreWaitThanMay) {
  for (std::uint64_t id = 1; id <= StepJoiner::kMaxWaiting; ++id) add_step(id);
  wire::Frame frame = whole(9999);
  (void)wire::split_sampling(std::get<wire::Step>(frame.message));
  const auto steps = joiner_.add_step(std::move(frame), now_);
  ASSERT_FALSE(steps);
  EXPECT_EQ(steps.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(steps.error().message(), HasSubstr("1024 steps wait for their sampling"));

  StepJoiner other;
  for (std::uint64_t id = 1; id <= StepJoiner::kMaxWaiting; ++id) {
    ASSERT_TRUE(other.add_sampling(StepId(id), {}));
  }
  const auto samplings = other.add_sampling(StepId(9999), {});
  ASSERT_FALSE(samplings);
  EXPECT_EQ(samplings.error().code(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace paceline::worker
