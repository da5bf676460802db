#include "system/user_directories.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace paceline::system {
namespace {

TEST(UserDirectoriesTest, TheVariableThenHomeThenNothing) {
  const char* given = std::getenv("HOME");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("HOME", "/home/anna", 1);
  ::setenv("PACELINE_TEST_HOME", "/x", 1);
  EXPECT_EQ(user_directory("PACELINE_TEST_HOME", ".cache"), "/x");
  ::setenv("PACELINE_TEST_HOME", "relative", 1);
  EXPECT_EQ(user_directory("PACELINE_TEST_HOME", ".cache"), "/home/anna/.cache");
  ::unsetenv("PACELINE_TEST_HOME");
  EXPECT_EQ(user_directory("PACELINE_TEST_HOME", ".local/state"), "/home/anna/.local/state");
  ::setenv("HOME", "", 1);
  EXPECT_TRUE(user_directory("PACELINE_TEST_HOME", ".cache").empty());
  ::setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace paceline::system
