#include "compiler/source_identity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

class SourceIdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("paceline-identity-{}", ::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path put(const std::string& name, const std::string& text = "1") const {
    std::ofstream(root_ / name) << text;
    return root_ / name;
  }
  static void touch(const fs::path& path) {
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  }
  fs::path root_;
};

TEST_F(SourceIdentityTest, AFileIsItsPathSizeAndTime) {
  const fs::path file = put("a.gguf");
  put("b.gguf");
  const std::string first = source_identity(file);
  EXPECT_EQ(source_identity(root_ / "." / "a.gguf"), first);
  touch(root_ / "b.gguf");
  EXPECT_EQ(source_identity(file), first) << "another file";
  touch(file);
  const std::string second = source_identity(file);
  EXPECT_NE(second, first);
  put("a.gguf", "22");
  EXPECT_NE(source_identity(file), second);
  EXPECT_NE(source_identity(root_ / "b.gguf"), source_identity(file));
}

TEST_F(SourceIdentityTest, PartsOfASplitFileCountTogether) {
  const fs::path first = put("m-00001-of-00002.gguf");
  const fs::path second = put("m-00002-of-00002.gguf");
  const fs::path other = put("n-00002-of-00002.gguf");
  const std::string before = source_identity(first);
  touch(other);
  EXPECT_EQ(source_identity(first), before);
  touch(second);
  EXPECT_NE(source_identity(first), before);
}

TEST_F(SourceIdentityTest, ADirectoryIsAllItsFiles) {
  put("config.json");
  put("model.safetensors");
  fs::create_directories(root_ / "deeper");
  const std::string before = source_identity(root_);
  EXPECT_EQ(source_identity(root_ / ""), source_identity(root_ / ""));
  put("deeper/file");
  EXPECT_EQ(source_identity(root_), before) << "directories in it are not read";
  touch(root_ / "model.safetensors");
  EXPECT_NE(source_identity(root_), before);
}

TEST_F(SourceIdentityTest, NothingIsNoCrash) {
  EXPECT_FALSE(source_identity(root_ / "none" / "x.gguf").empty());
}

}  // namespace
}  // namespace paceline::compiler
