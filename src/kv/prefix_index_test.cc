#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::kv {
namespace {

using Tokens = std::vector<std::int64_t>;

TEST(PrefixIndexTest, ABlockIsFoundByAllTokensBeforeIt) {
  PrefixIndex index;
  const PrefixNode root = index.make_root("");
  const PrefixNode first = index.insert(root, Tokens{1, 2}, BlockId(7), 1);
  const PrefixNode other = index.insert(root, Tokens{8, 8}, BlockId(3), 1);
  const PrefixNode second = index.insert(first, Tokens{3, 4}, BlockId(5), 1);
  EXPECT_EQ(index.find(root, Tokens{1, 2}), first);
  EXPECT_EQ(index.find(first, Tokens{3, 4}), second);
  EXPECT_EQ(index.find(other, Tokens{3, 4}), kNoNode);
  EXPECT_EQ(index.find(root, Tokens{3, 4}), kNoNode);
  EXPECT_EQ(index.find(root, Tokens{1}), kNoNode);
  EXPECT_EQ(index.block(second), BlockId(5));
  EXPECT_EQ(index.node_of(BlockId(5)), second);
  EXPECT_EQ(index.node_of(BlockId(6)), kNoNode);
}

TEST(PrefixIndexTest, SaltsDoNotSeeEachOther) {
  PrefixIndex index;
  const PrefixNode mine = index.make_root("tenant a");
  index.insert(mine, Tokens{1, 2}, BlockId(0), 1);
  EXPECT_EQ(index.make_root("tenant a"), mine);
  EXPECT_EQ(index.find_root("tenant b"), kNoNode);
  EXPECT_EQ(index.find(index.make_root("tenant b"), Tokens{1, 2}), kNoNode);
}

TEST(PrefixIndexTest, ErasingTakesWhatCannotBeFoundAnyMore) {
  PrefixIndex index;
  const PrefixNode root = index.make_root("s");
  const PrefixNode a = index.insert(root, Tokens{1}, BlockId(1), 1);
  const PrefixNode b = index.insert(a, Tokens{2}, BlockId(2), 2);
  index.insert(b, Tokens{3}, BlockId(3), 3);
  index.insert(a, Tokens{4}, BlockId(4), 4);
  std::vector<BlockId> gone = index.erase(b);
  std::sort(gone.begin(), gone.end());
  EXPECT_EQ(gone, (std::vector<BlockId>{BlockId(2), BlockId(3)}));
  EXPECT_EQ(index.size(), 2U);
  EXPECT_FALSE(index.contains(b));
  EXPECT_EQ(index.erase_since(2), (std::vector<BlockId>{BlockId(4)}));
  EXPECT_EQ(index.find_root("s"), root);
  EXPECT_EQ(index.erase(a), (std::vector<BlockId>{BlockId(1)}));
  EXPECT_EQ(index.find_root("s"), kNoNode) << "a root without texts goes away";
  EXPECT_NE(index.make_root("s"), root) << "numbers are never used again";
}

TEST(PrefixIndexTest, AStampTakesTheTextAfterIt) {
  PrefixIndex index;
  const PrefixNode a = index.insert(index.make_root(""), Tokens{1}, BlockId(1), 9);
  index.insert(a, Tokens{2}, BlockId(2), 3);
  EXPECT_EQ(index.erase_since(4).size(), 2U);
  EXPECT_EQ(index.size(), 0U);
  EXPECT_TRUE(index.erase_since(0).empty());
}

TEST(PrefixIndexTest, ALongTextGoesWithoutRecursion) {
  PrefixIndex index;
  PrefixNode node = index.make_root("");
  const PrefixNode first = index.insert(node, Tokens{0}, BlockId(0), 1);
  node = first;
  for (std::uint32_t i = 1; i < 200000; ++i) node = index.insert(node, Tokens{i}, BlockId(i), 1);
  EXPECT_EQ(index.erase(first).size(), 200000U);
}

}  // namespace
}  // namespace paceline::kv
