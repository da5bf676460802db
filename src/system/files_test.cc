#include "system/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace paceline::system {
namespace {

namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("paceline-files-{}", ::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  fs::path directory_;
};

TEST_F(FilesTest, WrittenTextIsReadBackAndBounded) {
  const fs::path path = directory_ / "a.txt";
  ASSERT_TRUE(write_file_atomically(path, "twelve bytes"));
  EXPECT_EQ(read_text_file(path, 12).value(), "twelve bytes");
  const auto refused = read_text_file(path, 11);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_text_file(directory_ / "none", 1).error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(read_text_file(directory_, 100));
}

TEST_F(FilesTest, AMappingShowsTheFile) {
  const fs::path path = directory_ / "m.bin";
  ASSERT_TRUE(write_file_atomically(path, "xyz"));
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped);
  const MappedFile moved = std::move(*mapped);
  ASSERT_EQ(moved.bytes().size(), 3U);
  EXPECT_EQ(static_cast<char>(moved.bytes()[2]), 'z');
  EXPECT_FALSE(MappedFile::open(directory_ / "none"));
}

TEST_F(FilesTest, ADirectoryAppearsOnlyByCommit) {
  const fs::path target = directory_ / "package";
  {
    auto abandoned = AtomicDirectory::create(target);
    ASSERT_TRUE(abandoned);
    std::ofstream(abandoned->path() / "f") << "1";
  }
  EXPECT_TRUE(fs::is_empty(directory_));
  auto made = AtomicDirectory::create(target);
  ASSERT_TRUE(made);
  std::ofstream(made->path() / "f") << "1";
  EXPECT_FALSE(fs::exists(target));
  ASSERT_TRUE(made->commit());
  EXPECT_TRUE(fs::exists(target / "f"));
  EXPECT_EQ(AtomicDirectory::create(target).error().code(), ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace paceline::system
