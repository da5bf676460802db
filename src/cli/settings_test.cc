#include "cli/settings.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace paceline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A command with a flag of each kind.
struct TestCommand {
  CLI::App app;
  int number = 1;
  std::uint64_t bytes = 0;
  bool switched = false;
  std::vector<std::string> list;
  std::string workers;
  std::string place;

  TestCommand() {
    app.add_option("--test-number", number)->check(CLI::Range(1, 100));
    app.add_option("--test-bytes", bytes)->transform(CLI::AsSizeValue(false));
    app.add_flag("--test-switched,!--no-test-switched", switched);
    app.add_option("--test-list", list)->take_all()->expected(1);
    auto* stages = app.add_option("--test-stages", stages_);
    app.add_option("--test-workers", workers)->excludes(stages);
    app.add_option("place,--test-place", place)->required();
  }
  int stages_ = 1;

  Result<SettingSources> apply(const std::string& file, const std::set<std::string>& given = {}) {
    const auto entries = parse_settings("[x]\n" + file, "f.toml");
    EXPECT_TRUE(entries);
    return apply_settings(app, given, *entries);
  }
};

class SettingsTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
  std::vector<std::string> set_;
};

TEST_F(SettingsTest, CommandLineThenEnvironmentThenFileThenDefault) {
  set("PACELINE_TEST_NUMBER", "2");
  set("PACELINE_TEST_PLACE", "env");
  TestCommand command;
  const auto sources =
      command.apply("test-number = 3\ntest-bytes = '2KiB'\ntest-place = 'file'\n", {"test-place"});
  ASSERT_TRUE(sources);
  command.app.parse("given");
  EXPECT_EQ(command.place, "given");
  EXPECT_EQ(sources->at("test-place").origin, Origin::kCommandLine);
  EXPECT_EQ(command.number, 2);
  EXPECT_EQ(sources->at("test-number").origin, Origin::kEnvironment);
  EXPECT_EQ(sources->at("test-number").where, "PACELINE_TEST_NUMBER");
  EXPECT_EQ(command.bytes, 2048U);
  EXPECT_EQ(sources->at("test-bytes").where, "f.toml:3");
  EXPECT_FALSE(sources->contains("test-list"));
}

TEST_F(SettingsTest, TheFirstFileCountsAndRequiredOnesMayComeFromThere) {
  TestCommand command;
  const auto user = parse_settings("[x]\ntest-place = 'user'\n", "user.toml");
  auto entries = *user;
  const auto system = parse_settings("[x]\ntest-place = 'etc'\ntest-number = 9", "etc.toml");
  entries.insert(entries.end(), system->begin(), system->end());
  ASSERT_TRUE(apply_settings(command.app, {}, entries));
  EXPECT_NO_THROW(command.app.parse(""));
  EXPECT_EQ(command.place, "user");
  EXPECT_EQ(command.number, 9);
}

TEST_F(SettingsTest, ListsAndSwitches) {
  TestCommand command;
  ASSERT_TRUE(command.apply("test-list = ['a,b', 'c']\ntest-switched = true\n"));
  command.app.parse("p");
  EXPECT_THAT(command.list, ElementsAre("a,b", "c"));
  EXPECT_TRUE(command.switched);
  set("PACELINE_TEST_LIST", "d,e");
  set("PACELINE_TEST_SWITCHED", "1");
  TestCommand other;
  ASSERT_TRUE(other.apply("no-test-switched = true\n"));
  other.app.parse("p");
  EXPECT_THAT(other.list, ElementsAre("d", "e"));
  EXPECT_TRUE(other.switched);
}

TEST_F(SettingsTest, AValueGivesWayToOneThatExcludesIt) {
  TestCommand command;
  const auto sources = command.apply("test-stages = 4\n", {"test-workers"});
  ASSERT_TRUE(sources);
  EXPECT_NO_THROW(command.app.parse("p --test-workers h:1"));
  EXPECT_EQ(command.stages_, 1);
  EXPECT_FALSE(sources->contains("test-stages"));
  TestCommand both;
  ASSERT_TRUE(both.apply("test-stages = 4\ntest-workers = 'h:1'\n"));
  EXPECT_THROW(both.app.parse("p"), CLI::ExcludesError) << "neither counts more";
}

TEST_F(SettingsTest, WhatIsWrongIsNamedByItsPlace) {
  const auto refusal = [](const std::string& file) {
    TestCommand command;
    const auto sources = command.apply(file);
    return sources ? "" : sources.error().message();
  };
  EXPECT_THAT(refusal("test-number = 101\n"), HasSubstr("f.toml:2: --test-number"));
  EXPECT_THAT(refusal("\ntest-number = 'many'\n"), HasSubstr("f.toml:3: "));
  EXPECT_THAT(refusal("test-number = [1, 2]\n"), HasSubstr("f.toml:2: "));
  EXPECT_THAT(refusal("test-switched = [true, true]\n"), HasSubstr("f.toml:2: test-switched: "));
  EXPECT_THAT(refusal("test-nothing = 1\n"), HasSubstr("f.toml:2: test-nothing: [x] has no such"));
  EXPECT_THAT(refusal("help = true\n"), HasSubstr("f.toml:2: help"));
  set("PACELINE_TEST_NUMBER", "0");
  EXPECT_THAT(refusal(""), HasSubstr("PACELINE_TEST_NUMBER: --test-number"));
}

TEST_F(SettingsTest, EntriesAreCheckedByNameAlone) {
  const TestCommand command;
  EXPECT_TRUE(check_entries(command.app, *parse_settings("[x]\ntest-number = 1000", "f")));
  EXPECT_FALSE(check_entries(command.app, *parse_settings("[x]\ntest-numbers = 1", "f")));
  const auto entries = *parse_settings("[x]\na = 1\n[y]\nb = 1\n[x.z]\nc = 1", "f");
  ASSERT_EQ(entries_of(entries, {"x"}).size(), 1U);
  EXPECT_EQ(entries_of(entries, {"x", "z"}).front().name, "c");
}

}  // namespace
}  // namespace paceline::cli
