#include "base/utf8.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Utf8Test, CharactersOfEachLength) {
  EXPECT_EQ(first_character_bytes("a"), 1U);
  EXPECT_EQ(first_character_bytes("\xC3\xA9x"), 2U);
  EXPECT_EQ(first_character_bytes("\xE4\xBD\xA0"), 3U);
  EXPECT_EQ(first_character_bytes("\xF0\x9F\x98\x80"), 4U);
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0b\xEF\xBF\xBD\xF4\x8F\xBF\xBF", 10)));
}

TEST(Utf8Test, IllFormedBytes) {
  for (const char* text : {
           "\x80",              // continues nothing
           "\xC0\xAF",          // overlong
           "\xE0\x9F\xBF",      // overlong
           "\xF0\x8F\xBF\xBF",  // overlong
           "\xED\xA0\x80",      // a surrogate
           "\xF4\x90\x80\x80",  // beyond U+10FFFF
           "\xF5\x80\x80\x80",  //
           "\xFF",              //
           "\xE4\xBD",          // cut
           "\xE4\xBDx",         // cut by another character
       }) {
    EXPECT_EQ(first_character_bytes(text), 0U) << testing::PrintToString(text);
    EXPECT_FALSE(is_utf8(std::string("ok ") + text));
  }
}

}  // namespace
}  // namespace paceline
