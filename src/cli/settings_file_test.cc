#include "cli/settings_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace paceline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto parsed = parse_settings(text, "f.toml");
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error().message();
}

TEST(SettingsFileTest, SectionsAndValuesOfEachKind) {
  const auto parsed = parse_settings(
      "# a comment\n"
      "[serve]\n"
      "port = 9000\n"
      "host = '::1'\n"
      "allowed-host = [\n  \"a\",\n  \"b\", # the last\n]\n"
      "[batch.submit]\n"
      "json = true\n"
      "[model.\"org/a.b\"]\n"
      "ctx = 4_096\n"
      "[generate]\n"
      "temperature = 0.5\n",
      "f.toml");
  ASSERT_TRUE(parsed) << parsed.error().message();
  ASSERT_EQ(parsed->size(), 6U);
  const auto find = [&parsed](const std::string& name) {
    for (const SettingsEntry& entry : *parsed) {
      if (entry.name == name) return entry;
    }
    return SettingsEntry();
  };
  EXPECT_THAT(find("port").values, ElementsAre("9000"));
  EXPECT_EQ(find("port").where(), "f.toml:3");
  EXPECT_EQ(find("port").section_name(), "serve");
  EXPECT_THAT(find("host").values, ElementsAre("::1"));
  EXPECT_THAT(find("allowed-host").values, ElementsAre("a", "b"));
  EXPECT_THAT(find("json").values, ElementsAre("true"));
  EXPECT_THAT(find("json").section, ElementsAre("batch", "submit"));
  EXPECT_THAT(find("ctx").section, ElementsAre("model", "org/a.b"));
  EXPECT_THAT(find("ctx").values, ElementsAre("4096"));
  EXPECT_THAT(find("temperature").values, ElementsAre("0.5"));
}

TEST(SettingsFileTest, WhatIsNoneIsNamedWithFileAndLine) {
  EXPECT_THAT(refusal("[serve\n"), HasSubstr("f.toml:1: "));
  EXPECT_THAT(refusal("[serve]\nport = 1\nport = 2\n"), HasSubstr("f.toml:3: "));
  EXPECT_THAT(refusal("port = 1\n"), HasSubstr("f.toml:1: port: expected it in a section"));
  EXPECT_THAT(refusal("[serve]\n\nport = 2020-01-01\n"), HasSubstr("f.toml:3: port: expected a "));
  EXPECT_THAT(refusal("[serve]\nx = [[1]]\n"), HasSubstr("f.toml:2: x: expected"));
  EXPECT_THAT(refusal("[serve]\nx = [{a = 1}]\n"), HasSubstr("f.toml:2: x: expected"));
  EXPECT_THAT(refusal("[a.b.c]\nx = 1\n"), HasSubstr("[a.b.c]: expected [COMMAND]"));
  EXPECT_THAT(refusal("[serve]\nx = \"\xFF\"\n"), HasSubstr("f.toml:2"));
}

TEST(SettingsFileTest, HostileBytesEnd) {
  EXPECT_FALSE(parse_settings("[a]\nx = " + std::string(100000, '['), "f"));
  std::string many = "[a]\n";
  for (int i = 0; i < 5000; ++i) many += "k" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(refusal(many), HasSubstr("more than 4096 entries"));
  EXPECT_FALSE(parse_settings(std::string("[a]\nx = 1\0y", 11), "f"));
}

class DefaultSettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::path(testing::TempDir()) / ("settings-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_ / "paceline");
    ::setenv("XDG_CONFIG_HOME", directory_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_CONFIG_HOME");
    std::filesystem::remove_all(directory_);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
  }
  std::filesystem::path directory_;
};

TEST_F(DefaultSettingsTest, TheUsersFileIsReadBeforeTheSystems) {
  const auto files = default_settings_files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0], directory_ / "paceline/config.toml");
  EXPECT_EQ(files[1], "/etc/paceline/config.toml");
  write("paceline/config.toml", "[serve]\nport = 1\n");
  const auto settings = read_settings("");
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->read.front(), files[0].string());
  EXPECT_EQ(settings->entries.front().name, "port");
  ::setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_NE(default_settings_files()[0], "relative/paceline/config.toml");
}

TEST_F(DefaultSettingsTest, AFileThatIsGivenMustBeThere) {
  write("other.toml", "[serve]\nport = 2\n");
  write("paceline/config.toml", "[serve]\nport = 1\n");
  const auto settings = read_settings((directory_ / "other.toml").string());
  ASSERT_TRUE(settings);
  ASSERT_EQ(settings->entries.size(), 1U) << "and no other is read";
  EXPECT_THAT(settings->entries[0].values, ElementsAre("2"));
  const auto missing = read_settings((directory_ / "nothing.toml").string());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("nothing.toml"));
  EXPECT_FALSE(read_settings(directory_.string())) << "a directory";
  EXPECT_TRUE(read_settings("none")->read.empty());
  write("large.toml", std::string((1 << 20) + 1, '#'));
  EXPECT_FALSE(read_settings((directory_ / "large.toml").string()));
}

}  // namespace
}  // namespace paceline::cli
