#include "kv/block_pool.h"

#include <gtest/gtest.h>

namespace paceline::kv {
namespace {

TEST(BlockPoolTest, GivesEachBlockOnceAndThenSaysWhatIsMissing) {
  BlockPool pool(5);
  const auto first = pool.allocate(3);
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, (std::vector<BlockId>{BlockId(0), BlockId(1), BlockId(2)}));
  const auto refused = pool.allocate(3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message(), "KV cache: 3 blocks are needed, 2 of 5 are free");
  EXPECT_EQ(pool.free_blocks(), 2U);
  EXPECT_TRUE(pool.allocate(2));
  EXPECT_TRUE(pool.allocate(0));
  EXPECT_FALSE(pool.allocate(1));
  EXPECT_TRUE(pool.check());
}

TEST(BlockPoolTest, ASharedBlockIsFreeAfterItsLastHolder) {
  BlockPool pool(1);
  const BlockId block = pool.allocate(1).value().front();
  pool.share(block);
  EXPECT_EQ(pool.references(block), 2U);
  pool.release(block);
  EXPECT_EQ(pool.free_blocks(), 0U);
  pool.release(block);
  EXPECT_EQ(pool.free_blocks(), 1U);
  EXPECT_TRUE(pool.check());
}

TEST(BlockPoolDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockPool pool(1);
  EXPECT_DEATH(pool.release(BlockId(0)), "check failed");
  EXPECT_DEATH(pool.share(BlockId(0)), "check failed");
  EXPECT_DEATH(pool.references(BlockId(1)), "check failed");
}

}  // namespace
}  // namespace paceline::kv
