#include "cli/layers_flag.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

TEST(LayersFlagTest, ARangeIsTwoNumbers) {
  EXPECT_EQ(parse_layers("0:15").value(), (LayerRange{0, 15}));
  EXPECT_EQ(parse_layers("7:8").value(), (LayerRange{7, 8}));
}

TEST(LayersFlagTest, AllElseIsRefusedWithTheFlagsName) {
  for (const char* text : {"", ":", "3", "3:", ":3", "a:b", "3:2", "3:3", "-1:4", "0:4x", "0:4:5",
                           " 0:4", "0-4", "0:99999999999"}) {
    const auto range = parse_layers(text);
    ASSERT_FALSE(range) << text;
    EXPECT_EQ(range.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(range.error().message(), testing::StartsWith("--layers: expected FIRST:END"));
  }
}

TEST(LayersFlagTest, TheModelMustHaveThem) {
  EXPECT_EQ(layers_or_all("", 30).value(), (LayerRange{0, 30}));
  EXPECT_EQ(layers_or_all("10:30", 30).value(), (LayerRange{10, 30}));
  EXPECT_EQ(layers_or_all("10:31", 30).error().message(),
            "--layers: got 10:31, but the model has layers 0:30");
  EXPECT_FALSE(layers_or_all("x", 30));
}

}  // namespace
}  // namespace paceline::cli
