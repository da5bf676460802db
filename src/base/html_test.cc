#include "base/html.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(HtmlTest, ForeignTextIsEscaped) {
  EXPECT_EQ(escape_html("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&#39;c");
  EXPECT_EQ(escape_html("\xc3\xa9 \xe6\x97\xa5"), "\xc3\xa9 \xe6\x97\xa5");
  EXPECT_EQ(escape_html("\xff\xc3(\x01\xe6\x97"),
            "??"
            "(???");
}

}  // namespace
}  // namespace paceline
