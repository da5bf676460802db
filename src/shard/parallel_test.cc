#include "shard/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace paceline::shard {
namespace {

TEST(ParallelTest, EveryIndexRunsOnce) {
  for (const std::uint32_t threads : {0U, 1U, 3U, 64U}) {
    std::vector<std::atomic<int>> runs(20);
    ASSERT_TRUE(for_each_index(runs.size(), threads, [&](std::size_t i) -> Status {
      ++runs[i];
      return {};
    }));
    for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
  }
  EXPECT_TRUE(for_each_index(0, 4, [](std::size_t) -> Status {
    return fail(ErrorCode::kInternal, "called for nothing");
  }));
}

TEST(ParallelTest, TheLowestFailureIsReportedWhateverTheThreads) {
  for (int round = 0; round < 50; ++round) {
    const auto status = for_each_index(100, 4, [](std::size_t i) -> Status {
      if (i >= 7 && i % 2 == 1) return fail(ErrorCode::kDataLoss, "item {}", i);
      return {};
    });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message(), "item 7");
  }
}

}  // namespace
}  // namespace paceline::shard
