#include "cli/commands.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace paceline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::path(testing::TempDir()) /
            ("commands-" + std::to_string(::getpid()) + ".toml");
    ::setenv("PACELINE_CONFIG", "none", 1);
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    ::unsetenv("PACELINE_CONFIG");
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  std::string option(const Reading& reading, const std::string& name) const {
    return reading.leaf.command->get_option(name)->as<std::string>();
  }
  std::string refusal(const std::vector<std::string>& arguments) const {
    const auto reading = read_command_line(arguments);
    if (!reading) return reading.error().message();
    const Status status = read_flags(**reading);
    EXPECT_FALSE(status);
    return status ? "" : status.error().message();
  }

  std::filesystem::path file_;
};

TEST_F(CommandsTest, EveryCommandHasAConfigurationFile) {
  Commands commands;
  const auto leaves = commands.leaves();
  EXPECT_GT(leaves.size(), 12U);
  for (const Commands::Leaf& leaf : leaves) {
    EXPECT_NE(leaf.command->get_option_no_throw("--config"), nullptr) << leaf.names.front();
  }
}

/// Two flags of a command with one name for variables and files would be one too few.
TEST_F(CommandsTest, NamesOfSettingsAreUnique) {
  Commands commands;
  for (const Commands::Leaf& leaf : commands.leaves()) {
    std::set<std::string> names;
    for (const CLI::Option* option : std::as_const(*leaf.command).get_options()) {
      const std::string name = setting_name(*option);
      if (name.empty()) continue;
      EXPECT_TRUE(names.insert(name).second) << leaf.names.front() << " " << name;
    }
  }
}

TEST_F(CommandsTest, AFileFillsInWhatTheCommandLineLeaves) {
  write("[worker]\nname = 'file'\nthreads = 3\n[batch.status]\nurl = 'http://h:1/v1'\n");
  const auto worker = read_command_line({"worker", "--name", "line", "--config", file_.string()});
  ASSERT_TRUE(worker) << worker.error().message();
  EXPECT_EQ((*worker)->sources.at("name").origin, Origin::kCommandLine);
  EXPECT_EQ(option(**worker, "--threads"), "3");
  EXPECT_EQ((*worker)->sources.at("threads").where, file_.string() + ":3");
  EXPECT_EQ(std::getenv("PACELINE_CONFIG"), file_) << "for workers that are started";
  const auto status = read_command_line({"batch", "status", "batch_1"});
  ASSERT_TRUE(status);
  EXPECT_THAT((*status)->leaf.names, ElementsAre("batch", "status"));
  EXPECT_EQ(option(**status, "--url"), "http://h:1/v1");
}

TEST_F(CommandsTest, FlagsThatNeedOthersMayFindThemInTheFile) {
  write("[serve]\ntls-key = '/k'\n");
  const auto serve =
      read_command_line({"serve", "/m", "--tls-cert", "/c", "--config=" + file_.string()});
  ASSERT_TRUE(serve) << serve.error().message();
  EXPECT_TRUE(read_flags(**serve));
  EXPECT_THAT(refusal({"serve", "/m", "--tls-cert", "/c", "--config=none"}),
              HasSubstr("--tls-key"));
}

TEST_F(CommandsTest, ErrorsNameFlagVariableOrLine) {
  EXPECT_THAT(refusal({"worker", "--nothing"}), HasSubstr("--nothing"));
  EXPECT_THAT(refusal({"chat", "--stages", "0"}), HasSubstr("--stages"));
  EXPECT_THAT(refusal({"nothing"}), HasSubstr("nothing"));
  EXPECT_THAT(refusal({"generate"}), HasSubstr("--package is required"));
  const std::string config = "--config=" + file_.string();
  write("[serv]\nport = 1\n");
  EXPECT_THAT(refusal({"worker", config}), HasSubstr(":2: [serv]: there is no such command"));
  write("[serve]\nports = 1\n");
  EXPECT_THAT(refusal({"worker", config}), HasSubstr(":2: ports: [serve] has no such entry"))
      << "also where another command runs";
  write("[serve]\nport = 100000\n");
  EXPECT_THAT(refusal({"serve", "/m", config}), HasSubstr(":2: "));
  write("[model.a]\nstagess = 1\n");
  EXPECT_THAT(refusal({"worker", config}), HasSubstr(":2: stagess: [model.a]"));
  EXPECT_THAT(refusal({"worker", "--config=/nothing.toml"}), HasSubstr("/nothing.toml"));
}

}  // namespace
}  // namespace paceline::cli
