#include "wire/epoch_guard.h"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

Address address(std::uint64_t chain, std::uint32_t epoch, std::uint32_t stage, std::uint64_t step) {
  return {ChainId(chain), Epoch(epoch), StageId(stage), StepId(step)};
}

TEST(EpochGuardTest, RisingStepsOfTheAssignmentAreTaken) {
  EpochGuard guard(address(7, 2, 1, 0));
  EXPECT_TRUE(guard.admit(address(7, 2, 1, 1)));
  EXPECT_TRUE(guard.admit(address(7, 2, 1, 5)));
  EXPECT_EQ(guard.last_accepted(), address(7, 2, 1, 5));
}

TEST(EpochGuardTest, AllElseIsRefusedWithTheReasonAndChangesNothing) {
  EpochGuard guard(address(7, 2, 1, 4));
  struct Case {
    Address address;
    Refusal refusal;
    ErrorCode code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {address(8, 2, 1, 5), Refusal::kOtherChain, ErrorCode::kFailedPrecondition,
       "chain: 8, but this stage belongs to chain 7"},
      {address(7, 1, 1, 5), Refusal::kOldEpoch, ErrorCode::kAborted, "epoch: 1 is over, now is 2"},
      {address(7, 3, 1, 5), Refusal::kNewEpoch, ErrorCode::kFailedPrecondition,
       "epoch: 3, but this stage was assigned in 2"},
      {address(7, 2, 0, 5), Refusal::kOtherStage, ErrorCode::kFailedPrecondition,
       "stage: 0, but this is stage 1 of chain 7"},
      {address(7, 2, 1, 4), Refusal::kOldStep, ErrorCode::kAborted,
       "step: 4, expected one after 4"},
      {address(7, 2, 1, 3), Refusal::kOldStep, ErrorCode::kAborted,
       "step: 3, expected one after 4"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(guard.check(c.address), c.refusal);
    const Status status = guard.admit(c.address);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), c.code);
    EXPECT_EQ(status.error().message(), c.message);
    EXPECT_EQ(is_late(c.refusal), c.code == ErrorCode::kAborted);
  }
  EXPECT_EQ(guard.check(address(7, 2, 1, 5)), std::nullopt);
}

}  // namespace
}  // namespace paceline::wire
