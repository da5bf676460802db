#include "spec/suffix_index.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::spec {
namespace {

using Tokens = std::vector<std::int64_t>;

TEST(SuffixIndexTest, FindsTheLongestPlaceAndReadsOn) {
  SuffixIndex index({2, 16, 8, 1000});
  index.append(Tokens{1, 2, 3, 50, 51, 9, 2, 3, 60, 61});
  const SuffixMatch longest = index.find(Tokens{1, 2, 3});
  EXPECT_EQ(longest.length, 3U);
  EXPECT_EQ(index.read(longest.continuation, 2), (Tokens{50, 51}));
  // Of equals the newest.
  const SuffixMatch newest = index.find(Tokens{7, 2, 3});
  EXPECT_EQ(newest.length, 2U);
  EXPECT_EQ(index.read(newest.continuation, 5), (Tokens{60, 61, 60, 61, 60}));
  EXPECT_EQ(index.find(Tokens{3}).length, 0U);
  EXPECT_EQ(index.find(Tokens{3, 1}).length, 0U);
}

TEST(SuffixIndexTest, TheEndItselfIsNoMatch) {
  SuffixIndex index({2, 16, 8, 1000});
  index.append(Tokens{1, 2, 3});
  EXPECT_EQ(index.find(Tokens{2, 3}).length, 0U);
  index.append(Tokens{2, 3});
  EXPECT_EQ(index.find(Tokens{2, 3}).length, 2U);
}

TEST(SuffixIndexTest, AnEndOfTextIsNotCrossed) {
  SuffixIndex index({2, 16, 8, 1000});
  index.append(Tokens{1, 2, 3});
  index.end_text();
  index.end_text();
  index.append(Tokens{4, 5});
  index.end_text();
  EXPECT_EQ(index.size(), 7U);
  EXPECT_EQ(index.find(Tokens{3, 4}).length, 0U);
  EXPECT_EQ(index.find(Tokens{2, 3}).length, 0U) << "nothing comes after it";
  const SuffixMatch match = index.find(Tokens{1, 2});
  EXPECT_EQ(index.read(match.continuation, 8), (Tokens{3}));
}

TEST(SuffixIndexTest, DraftsUnderVerificationStandBetweenTheEndAndTheNextOnes) {
  SuffixIndex index({2, 16, 8, 1000});
  index.append(Tokens{7, 1, 2, 3, 1, 2, 3});
  const Tokens assumed = {1, 2};
  const SuffixMatch match = index.find(Tokens{2, 3, 1, 2});
  EXPECT_EQ(match.length, 4U);
  EXPECT_EQ(index.read(match.continuation, 5, assumed), (Tokens{3, 1, 2, 3, 1}));
}

TEST(SuffixIndexTest, ForgetsTheOldestAndKeepsItsBound) {
  SuffixIndex index({3, 16, 4, 100});
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    index.append(Tokens{static_cast<std::int64_t>(random() % 5)});
    ASSERT_LE(index.size(), 100U);
  }
  index.append(Tokens{91, 92, 93, 94});
  EXPECT_EQ(index.find(Tokens{91, 92, 93}).length, 3U);
  for (int i = 0; i < 96; ++i) index.append(Tokens{1000 + i});
  EXPECT_EQ(index.find(Tokens{91, 92, 93}).length, 3U);
  index.append(Tokens{2000});
  EXPECT_EQ(index.find(Tokens{91, 92, 93}).length, 0U);
}

/// Against comparing every place.
TEST(SuffixIndexTest, RandomTextsAgreeWithASearchOfEverything) {
  std::mt19937 random(11);
  const SuffixIndexOptions options = {2, 8, 1000, 200};
  SuffixIndex index(options);
  Tokens all;
  for (int round = 0; round < 2000; ++round) {
    all.push_back(static_cast<std::int64_t>(random() % 4));
    index.append(Tokens{all.back()});
    Tokens context;
    for (int i = 0; i < 8; ++i) context.push_back(static_cast<std::int64_t>(random() % 4));
    const std::size_t begin = all.size() > 200 ? all.size() - 200 : 0;
    std::size_t longest = 0;
    for (std::size_t place = begin + 2; place < all.size(); ++place) {
      std::size_t length = 0;
      while (length < 8 && place - length > begin && all[place - 1 - length] == context[7 - length])
        ++length;
      longest = std::max(longest, length);
    }
    ASSERT_EQ(index.find(context).length, longest < 2 ? 0 : longest) << "round " << round;
  }
}

}  // namespace
}  // namespace paceline::spec
