#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

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

TEST(SequenceBlocksTest, BlocksFollowTokens) {
  BlockPool pool(4);
  SequenceBlocks sequence(&pool, 32);
  ASSERT_TRUE(sequence.grow(1));
  EXPECT_EQ(sequence.blocks().size(), 1U);
  ASSERT_TRUE(sequence.grow(32));
  EXPECT_EQ(sequence.blocks().size(), 1U);
  ASSERT_TRUE(sequence.grow(33));
  EXPECT_EQ(sequence.blocks().size(), 2U);
  EXPECT_FALSE(sequence.grow(32));
  EXPECT_FALSE(sequence.grow(4 * 32 + 1));
  EXPECT_FALSE(sequence.grow(UINT32_MAX));
  EXPECT_EQ(sequence.tokens(), 33U);
  EXPECT_EQ(pool.free_blocks(), 2U);
  ASSERT_TRUE(sequence.truncate(32));
  EXPECT_EQ(sequence.blocks().size(), 1U);
  EXPECT_FALSE(sequence.truncate(33));
  sequence.free();
  EXPECT_EQ(sequence.tokens(), 0U);
  EXPECT_EQ(pool.free_blocks(), 4U);
}

TEST(SequenceBlocksTest, ItsEndReleasesAndAMoveDoesNot) {
  BlockPool pool(2);
  {
    SequenceBlocks sequence(&pool, 16);
    ASSERT_TRUE(sequence.grow(20));
    SequenceBlocks moved = std::move(sequence);
    EXPECT_EQ(moved.tokens(), 20U);
    EXPECT_EQ(sequence.tokens(), 0U);  // NOLINT(bugprone-use-after-move): defined to be empty
    EXPECT_EQ(pool.free_blocks(), 0U);
  }
  EXPECT_EQ(pool.free_blocks(), 2U);
}

TEST(SequenceBlocksTest, OnlyFullBlocksAreShared) {
  BlockPool pool(8);
  SequenceBlocks parent(&pool, 16);
  ASSERT_TRUE(parent.grow(50));
  auto child = parent.share_prefix(47);
  ASSERT_TRUE(child);
  EXPECT_EQ(child->tokens(), 32U);
  ASSERT_EQ(child->blocks().size(), 2U);
  EXPECT_EQ(child->blocks()[1], parent.blocks()[1]);
  ASSERT_TRUE(child->grow(47));
  EXPECT_NE(child->blocks()[2], parent.blocks()[2]);
  EXPECT_FALSE(parent.share_prefix(51));
  // Position 20 is inside a block that both hold; 16 is between blocks.
  EXPECT_EQ(parent.truncate(20).error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(parent.tokens(), 50U);
  EXPECT_TRUE(parent.truncate(16));
  parent.free();
  EXPECT_EQ(pool.references(child->blocks()[0]), 1U);
  EXPECT_EQ(pool.free_blocks(), 5U);
}

TEST(CheckInvariantsTest, SeesALeakAndAStolenBlock) {
  BlockPool pool(4);
  std::vector<SequenceBlocks> sequences;
  sequences.emplace_back(&pool, 16);
  ASSERT_TRUE(sequences[0].grow(32));
  EXPECT_TRUE(check_invariants(pool, sequences));
  const auto leaked = pool.allocate(1);
  EXPECT_FALSE(check_invariants(pool, sequences));
  pool.release(leaked->front());
  EXPECT_TRUE(check_invariants(pool, sequences));
  pool.share(sequences[0].blocks()[0]);
  EXPECT_FALSE(check_invariants(pool, sequences));
  pool.release(sequences[0].blocks()[0]);
}

TEST(CheckInvariantsTest, TenThousandRandomOperationsKeepThem) {
  constexpr std::uint32_t kBlockTokens = 4;
  const std::uint32_t seed = 20240601;
  std::mt19937 random(seed);
  BlockPool pool(64);
  std::vector<SequenceBlocks> sequences;
  int refused = 0;
  int shared = 0;
  for (int step = 0; step < 10000; ++step) {
    const std::uint32_t kind = static_cast<std::uint32_t>(random() % 8);
    if (sequences.empty() || kind == 0) {
      sequences.emplace_back(&pool, kBlockTokens);
    } else {
      SequenceBlocks& sequence = sequences[random() % sequences.size()];
      const auto below = static_cast<std::uint32_t>(random() % (sequence.tokens() + 1));
      const std::uint32_t before = pool.free_blocks();
      if (kind <= 3) {
        const std::uint32_t tokens = sequence.tokens() + static_cast<std::uint32_t>(random() % 20);
        const std::uint32_t old = sequence.tokens();
        if (!sequence.grow(tokens)) {
          ++refused;
          ASSERT_EQ(pool.free_blocks(), before);
          ASSERT_EQ(sequence.tokens(), old);
        }
      } else if (kind == 4) {
        const auto status = sequence.truncate(below);
        if (!status) {
          ASSERT_EQ(status.error().code(), ErrorCode::kFailedPrecondition);
        }
      } else if (kind == 5) {
        auto child = sequence.share_prefix(below);
        ASSERT_TRUE(child);
        shared += child->blocks().empty() ? 0 : 1;
        sequences.push_back(std::move(*child));
      } else {
        std::swap(sequence, sequences.back());
        sequences.pop_back();
      }
    }
    const auto status = check_invariants(pool, sequences);
    ASSERT_TRUE(status) << status.error().message() << " at step " << step << ", seed " << seed;
    for (const SequenceBlocks& sequence : sequences) {
      ASSERT_EQ(sequence.blocks().size(), (sequence.tokens() + kBlockTokens - 1) / kBlockTokens);
      if (sequence.tokens() % kBlockTokens == 0) continue;
      ASSERT_EQ(pool.references(sequence.blocks().back()), 1U) << "step " << step;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(shared, 100);
  sequences.clear();
  EXPECT_EQ(pool.free_blocks(), pool.capacity());
}

}  // namespace
}  // namespace paceline::kv
