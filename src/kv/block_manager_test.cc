#include "kv/block_manager.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>
#include <random>

namespace paceline::kv {
namespace {

using Tokens = std::vector<std::int64_t>;

Tokens numbers(std::int64_t first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Opens a sequence for `tokens` and plans all of them, as a prefill in one step does.
std::uint32_t prefill(BlockManager& manager, SequenceId sequence, const Tokens& tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t reused = manager.open(sequence, "", tokens, count - 1);
  EXPECT_TRUE(manager.reserve(sequence, reused, count));
  manager.publish(sequence, "", tokens, 1);
  return reused;
}

TEST(BlockManagerTest, BlocksFollowTokens) {
  BlockManager manager(4, 32);
  EXPECT_EQ(manager.capacity_tokens(), 128U);
  manager.open(SequenceId(1), "", Tokens{}, 0);
  ASSERT_TRUE(manager.reserve(SequenceId(1), 0, 33));
  EXPECT_EQ(manager.table(SequenceId(1)).size(), 2U);
  EXPECT_EQ(manager.available_blocks(), 2U);
  // Rejected drafts: two tokens back, one new.
  ASSERT_TRUE(manager.reserve(SequenceId(1), 31, 32));
  EXPECT_EQ(manager.table(SequenceId(1)).size(), 1U);
  const auto refused = manager.reserve(SequenceId(1), 32, 4 * 32 + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message(), "KV cache: 4 blocks are needed, 3 of 4 are free");
  EXPECT_EQ(manager.reachable_tokens(SequenceId(1)), 128U);
  EXPECT_TRUE(manager.check());
  manager.free(SequenceId(1));
  EXPECT_EQ(manager.available_blocks(), 4U);
  EXPECT_TRUE(manager.check());
}

TEST(BlockManagerTest, WhatWasPublishedIsSharedWhileInUseAndAfter) {
  BlockManager manager(8, 4);
  EXPECT_EQ(prefill(manager, SequenceId(1), numbers(0, 10)), 0U);
  EXPECT_EQ(manager.cached_prefix("", numbers(0, 10)), 8U);
  EXPECT_EQ(manager.cached_prefix("other", numbers(0, 10)), 0U);
  EXPECT_EQ(prefill(manager, SequenceId(2), numbers(0, 10)), 8U);
  EXPECT_EQ(manager.table(SequenceId(1))[1], manager.table(SequenceId(2))[1]);
  EXPECT_NE(manager.table(SequenceId(1))[2], manager.table(SequenceId(2))[2]);
  EXPECT_EQ(manager.available_blocks(), 4U);
  manager.free(SequenceId(1));
  manager.free(SequenceId(2));
  EXPECT_EQ(manager.available_blocks(), 8U);
  EXPECT_EQ(manager.cached_blocks(), 2U);
  EXPECT_EQ(prefill(manager, SequenceId(3), numbers(0, 12)), 8U);
  EXPECT_TRUE(manager.check());
}

TEST(BlockManagerTest, APromptThatIsCachedWholeGetsACopyOfItsLastBlock) {
  BlockManager manager(8, 4);
  prefill(manager, SequenceId(1), numbers(0, 8));
  const BlockId shared = manager.table(SequenceId(1))[1];
  const std::uint32_t before = manager.available_blocks();
  EXPECT_EQ(manager.blocks_to_open("", numbers(0, 8), 7, 8), 1U);
  EXPECT_EQ(manager.open(SequenceId(2), "", numbers(0, 8), 7), 7U);
  EXPECT_FALSE(manager.is_writable(SequenceId(2), 7, 7 + 1));
  const auto copies = manager.reserve(SequenceId(2), 7, 8);
  ASSERT_TRUE(copies);
  ASSERT_EQ(copies->size(), 1U);
  EXPECT_EQ(copies->front().from, shared);
  EXPECT_EQ(copies->front().to, manager.table(SequenceId(2))[1]);
  EXPECT_TRUE(manager.is_writable(SequenceId(2), 7, 8));
  EXPECT_EQ(manager.available_blocks(), before - 1);
  EXPECT_TRUE(manager.check());
}

TEST(BlockManagerTest, ASoleHolderWritesInPlaceRatherThanBeRefused) {
  BlockManager manager(2, 4);
  prefill(manager, SequenceId(1), numbers(0, 8));
  manager.free(SequenceId(1));
  EXPECT_EQ(manager.open(SequenceId(2), "", numbers(0, 8), 7), 7U);
  const auto copies = manager.reserve(SequenceId(2), 7, 8);
  ASSERT_TRUE(copies);
  EXPECT_TRUE(copies->empty());
  EXPECT_EQ(manager.cached_blocks(), 1U);
  EXPECT_TRUE(manager.check());
}

TEST(BlockManagerTest, AForkSharesWholeBlocksAndCopiesTheRest) {
  BlockManager manager(8, 4);
  prefill(manager, SequenceId(1), numbers(0, 7));
  manager.fork(SequenceId(2), SequenceId(1), 6);
  const auto copies = manager.reserve(SequenceId(2), 6, 7);
  ASSERT_TRUE(copies);
  EXPECT_EQ(copies->size(), 1U);
  EXPECT_EQ(manager.table(SequenceId(1))[0], manager.table(SequenceId(2))[0]);
  // The parent goes on in its own block.
  EXPECT_TRUE(manager.reserve(SequenceId(1), 7, 8)->empty());
  EXPECT_TRUE(manager.check());
}

TEST(BlockManagerTest, TheLeastRecentlyUsedGoesFirstAndEndsBeforeBeginnings) {
  BlockManager manager(6, 4);
  prefill(manager, SequenceId(1), numbers(0, 8));
  prefill(manager, SequenceId(2), numbers(100, 8));
  manager.free(SequenceId(1));
  manager.free(SequenceId(2));
  prefill(manager, SequenceId(3), numbers(200, 12));  // 2 free blocks, 1 evicted
  EXPECT_EQ(manager.cached_prefix("", numbers(0, 8)), 4U);
  EXPECT_EQ(manager.cached_prefix("", numbers(100, 8)), 8U);
  manager.free(SequenceId(3));
  // Used again, the oldest text becomes the newest.
  EXPECT_EQ(manager.open(SequenceId(4), "", numbers(0, 8), 7), 4U);
  manager.free(SequenceId(4));
  prefill(manager, SequenceId(5), numbers(300, 8));
  EXPECT_EQ(manager.cached_prefix("", numbers(0, 8)), 4U);
  EXPECT_EQ(manager.cached_prefix("", numbers(100, 8)), 0U);
  EXPECT_TRUE(manager.check());
}

TEST(BlockManagerTest, AnUndoneStepPublishesNothing) {
  BlockManager manager(8, 4);
  const Tokens tokens = numbers(0, 8);
  manager.open(SequenceId(1), "", tokens, 0);
  ASSERT_TRUE(manager.reserve(SequenceId(1), 0, 8));
  manager.publish(SequenceId(1), "", std::span(tokens).first(4), 5);
  manager.publish(SequenceId(1), "", tokens, 6);
  EXPECT_EQ(manager.cached_prefix("", tokens), 8U);
  manager.forget_since(6);
  EXPECT_EQ(manager.cached_prefix("", tokens), 4U);
  manager.forget_since(0);
  EXPECT_EQ(manager.cached_blocks(), 0U);
  EXPECT_TRUE(manager.check());
  manager.free(SequenceId(1));
  EXPECT_EQ(manager.available_blocks(), 8U);
}

TEST(BlockManagerTest, TheCheckSeesASharedBlockThatIsPartlyFilled) {
  BlockManager manager(8, 4);
  prefill(manager, SequenceId(1), numbers(0, 7));
  EXPECT_TRUE(manager.check());
  manager.fork(SequenceId(2), SequenceId(1), 7);
  EXPECT_FALSE(manager.check());
}

TEST(BlockManagerDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockManager manager(2, 4);
  manager.open(SequenceId(1), "", Tokens{}, 0);
  EXPECT_DEATH(manager.open(SequenceId(1), "", Tokens{}, 0), "check failed");
  EXPECT_DEATH(manager.free(SequenceId(2)), "check failed");
  EXPECT_DEATH((void)manager.reserve(SequenceId(1), 1, 2), "check failed");
}

/// Sequences with a memory of blocks behind them: whatever a table shows must be the sequence's own
/// tokens, or a block was written by somebody else or handed out too early.
class RandomBlocks {
 public:
  explicit RandomBlocks(std::uint32_t seed) : random_(seed) {}

  void step() {
    const std::uint32_t kind = below(10);
    if (kind < 3 || live_.empty()) {
      open();
    } else if (kind < 7) {
      extend(pick());
    } else if (kind == 7) {
      fork(pick());
    } else if (kind == 8) {
      undo();
    } else {
      close(pick());
    }
  }

  void verify() const {
    const auto status = manager_.check();
    ASSERT_TRUE(status) << status.error().message();
    for (const auto& [id, text] : live_) {
      ASSERT_EQ(manager_.tokens(id), text.size());
      for (std::size_t i = 0; i < text.size(); ++i) {
        ASSERT_EQ(memory_[manager_.table(id)[i / kBlock].value()][i % kBlock], text[i])
            << "sequence " << id.value() << " position " << i;
      }
    }
  }

  void close_all() {
    while (!live_.empty()) close(live_.begin()->first);
    EXPECT_EQ(manager_.available_blocks(), kBlocks);
  }

  int refused = 0;
  int reused = 0;
  int copied = 0;

 private:
  static constexpr std::uint32_t kBlock = 4;
  static constexpr std::uint32_t kBlocks = 48;

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  SequenceId pick() {
    return std::next(live_.begin(), below(static_cast<std::uint32_t>(live_.size())))->first;
  }

  /// Few distinct texts, so that prefixes meet.
  std::int64_t token(std::size_t position) {
    return static_cast<std::int64_t>(position * 10 + (below(12) == 0 ? below(3) : 0));
  }

  bool write(SequenceId id, std::uint32_t begin, Tokens text) {
    const auto copies = manager_.reserve(id, begin, static_cast<std::uint32_t>(text.size()));
    if (!copies) {
      ++refused;
      live_[id] = {text.begin(), text.begin() + begin};
      return false;
    }
    for (const BlockCopy& copy : *copies) {
      memory_[copy.to.value()] = memory_[copy.from.value()];
      ++copied;
    }
    EXPECT_TRUE(manager_.is_writable(id, begin, static_cast<std::uint32_t>(text.size())));
    for (std::size_t i = begin; i < text.size(); ++i) {
      memory_[manager_.table(id)[i / kBlock].value()][i % kBlock] = text[i];
    }
    manager_.publish(id, "", text, ++stamp_);
    live_[id] = std::move(text);
    return true;
  }

  void open() {
    Tokens text(1 + below(30));
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = token(i);
    const SequenceId id(++last_);
    const auto most = static_cast<std::uint32_t>(text.size() - 1);
    const std::uint32_t cost = manager_.blocks_to_open("", text, most, text.size());
    const std::uint32_t before = manager_.available_blocks();
    const std::uint32_t hits = manager_.open(id, "", text, most);
    reused += hits > 0 ? 1 : 0;
    const bool fits = write(id, hits, text);
    EXPECT_EQ(fits, cost <= before);
    // A sequence that was refused may hold a block in part; as in a scheduler it ends there.
    if (!fits) {
      manager_.free(id);
      live_.erase(id);
    }
  }

  void extend(SequenceId id) {
    Tokens text = live_.at(id);
    // The last tokens may be rejected drafts.
    text.resize(text.size() - std::min<std::size_t>(text.size(), below(3)));
    const auto begin = static_cast<std::uint32_t>(text.size());
    const std::uint32_t more = 1 + below(6);
    for (std::uint32_t i = 0; i < more; ++i) text.push_back(token(text.size()));
    if (!write(id, begin, std::move(text))) close(id);
  }

  void fork(SequenceId parent) {
    const Tokens text = live_.at(parent);
    if (text.empty()) return;
    const SequenceId id(++last_);
    const std::uint32_t begin = below(static_cast<std::uint32_t>(text.size()));
    manager_.fork(id, parent, begin);
    Tokens own(text.begin(), text.begin() + begin);
    own.push_back(token(begin));
    if (!write(id, begin, std::move(own))) close(id);
  }

  /// The last steps never happened: who has rows of theirs begins again.
  void undo() {
    const std::uint64_t since = stamp_ - std::min<std::uint64_t>(stamp_, below(3));
    manager_.forget_since(since);
  }

  void close(SequenceId id) {
    manager_.free(id);
    live_.erase(id);
  }

  std::mt19937 random_;
  BlockManager manager_{kBlocks, kBlock};
  std::vector<std::array<std::int64_t, kBlock>> memory_ =
      std::vector<std::array<std::int64_t, kBlock>>(kBlocks);
  std::map<SequenceId, Tokens> live_;
  std::uint64_t last_ = 0;
  std::uint64_t stamp_ = 0;
};

TEST(BlockManagerTest, TwentyThousandRandomOperationsMixNothingUp) {
  const std::uint32_t seed = 20240601;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomBlocks random(seed);
  for (int step = 0; step < 20000; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    random.step();
    random.verify();
    if (testing::Test::HasFailure()) return;
  }
  random.close_all();
  EXPECT_GT(random.refused, 100);
  EXPECT_GT(random.reused, 1000);
  EXPECT_GT(random.copied, 500);
}

}  // namespace
}  // namespace paceline::kv
