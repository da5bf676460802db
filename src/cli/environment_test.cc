#include "cli/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace paceline::cli {
namespace {

TEST(EnvironmentTest, EachFlagHasAVariableAndTheCommandLineCountsMore) {
  EXPECT_EQ(environment_variable("max-waiting"), "PACELINE_MAX_WAITING");
  ::setenv("PACELINE_TEST_FLAG", "7", 1);
  const auto parsed = [](const std::string& line) {
    CLI::App app;
    int value = 1;
    app.add_option("--test-flag", value);
    name_environment_variables(app);
    app.parse(line);
    return value;
  };
  EXPECT_EQ(parsed(""), 7);
  EXPECT_EQ(parsed("--test-flag 9"), 9);
  ::unsetenv("PACELINE_TEST_FLAG");
  EXPECT_EQ(parsed(""), 1);
}

TEST(EnvironmentTest, ARequiredFlagMayComeFromThere) {
  ::setenv("PACELINE_TEST_FLAG", "x", 1);
  CLI::App app;
  std::string value;
  app.add_option("positional,--test-flag", value)->required();
  name_environment_variables(app);
  EXPECT_NO_THROW(app.parse(""));
  EXPECT_EQ(value, "x");
  ::unsetenv("PACELINE_TEST_FLAG");
}

}  // namespace
}  // namespace paceline::cli
