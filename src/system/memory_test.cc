#include "system/memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::system {
namespace {

TEST(MemoryTest, TheMachineHasMemoryAndThisProcessUsesSomeOfIt) {
  const auto machine = machine_memory();
  ASSERT_TRUE(machine) << machine.error().message();
  EXPECT_GT(machine->total_bytes, 64U << 20);
  EXPECT_LE(machine->available_bytes, machine->total_bytes);
}

TEST(MemoryTest, TouchedMemoryCountsAsAnonymous) {
  constexpr std::size_t kBytes = 64U << 20;
  const auto before = process_memory();
  ASSERT_TRUE(before) << before.error().message();
  std::vector<char> block(kBytes, 1);
  const auto after = process_memory();
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_GE(after->anonymous_bytes, before->anonymous_bytes + kBytes / 2);
  EXPECT_EQ(block.back(), 1);
}

}  // namespace
}  // namespace paceline::system
