#include "spec/draft_tree.h"

#include <gtest/gtest.h>

namespace paceline::spec {
namespace {

using Tokens = std::vector<std::int64_t>;

/// 10 -> 20 -> 30, and 11 beside 10, and 21 beside 20.
DraftTree branched() {
  DraftTree tree;
  EXPECT_EQ(tree.add(DraftTree::kRoot, 10).value(), 0);
  EXPECT_EQ(tree.add(DraftTree::kRoot, 11).value(), 1);
  EXPECT_EQ(tree.add(0, 20).value(), 2);
  EXPECT_EQ(tree.add(0, 21).value(), 3);
  EXPECT_EQ(tree.add(2, 30).value(), 4);
  return tree;
}

TEST(DraftTreeTest, ARowSeesItselfAndItsAncestors) {
  const DraftTree tree = branched();
  EXPECT_EQ(tree.depths(), (std::vector<std::uint32_t>{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(tree.visible_rows(), (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0,  //
                                                            1, 1, 0, 0, 0, 0,  //
                                                            1, 0, 1, 0, 0, 0,  //
                                                            1, 1, 0, 1, 0, 0,  //
                                                            1, 1, 0, 0, 1, 0,  //
                                                            1, 1, 0, 1, 0, 1}));
}

TEST(DraftTreeTest, ALineIsACausalMask) {
  const DraftTree tree = DraftTree::line(Tokens{5, 6});
  EXPECT_EQ(tree.visible_rows(), (std::vector<std::uint8_t>{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(tree.depths(), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(DraftTreeTest, TheBranchThatWasGuessedRightIsKept) {
  const DraftTree tree = branched();
  // Rows: root, 10, 11, 20, 21, 30; what each sampled.
  EXPECT_EQ(tree.accept(Tokens{10, 21, 0, 0, 77, 0}).value(),
            (std::vector<std::uint32_t>{0, 1, 4}));
  EXPECT_EQ(tree.accept(Tokens{12, 20, 0, 30, 0, 0}).value(), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(tree.accept(Tokens{10, 20, 0, 30, 0, 9}).value(),
            (std::vector<std::uint32_t>{0, 1, 3, 5}));
  EXPECT_EQ(tree.accept(Tokens{10}).error().code(), ErrorCode::kInvalidArgument);
}

TEST(DraftTreeTest, RefusesWhatIsNoTree) {
  DraftTree tree = branched();
  EXPECT_EQ(tree.add(0, 21).value(), 3) << "the same guess is the same node";
  EXPECT_EQ(tree.size(), 5U);
  EXPECT_EQ(tree.add(5, 1).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(tree.add(-2, 1).error().code(), ErrorCode::kInvalidArgument);
  while (tree.size() < DraftTree::kMaxNodes) {
    ASSERT_TRUE(tree.add(static_cast<std::int32_t>(tree.size()) - 1, 1));
  }
  EXPECT_EQ(tree.add(0, 99).error().code(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace paceline::spec
