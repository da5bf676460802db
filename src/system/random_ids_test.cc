#include "system/random_ids.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline::system {
namespace {

TEST(RandomIdsTest, HaveAsManyDigitsAsAskedForAndNoTwoAreAlike) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    for (const std::size_t digits : {9U, 16U, 24U, 33U}) {
      const std::string text = random_hex(digits);
      EXPECT_EQ(text.size(), digits);
      EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
      EXPECT_TRUE(seen.insert(text).second) << text;
    }
  }
  EXPECT_TRUE(random_id("file-").starts_with("file-"));
  EXPECT_EQ(random_id("file-").size(), 29U);
  EXPECT_NE(random_seed(), random_seed());
}

}  // namespace
}  // namespace paceline::system
