#include "system/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>

namespace paceline::system {
namespace {

namespace fs = std::filesystem;

class InputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() / fmt::format("paceline-input-{}", ::getpid());
    std::ofstream(path_, std::ios::binary) << "0123456789";
  }
  void TearDown() override { fs::remove(path_); }
  fs::path path_;
};

TEST_F(InputFileTest, ReadsAtOffsets) {
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->size(), 10U);
  std::array<std::byte, 3> bytes = {};
  ASSERT_TRUE(file->read(7, bytes));
  EXPECT_EQ(static_cast<char>(bytes[0]), '7');
  EXPECT_EQ(static_cast<char>(bytes[2]), '9');
  EXPECT_TRUE(file->read(10, {}));
}

TEST_F(InputFileTest, AnEndBeforeTheLastByteIsNamed) {
  const auto file = InputFile::open(path_);
  ASSERT_TRUE(file);
  std::array<std::byte, 4> bytes = {};
  const auto beyond = file->read(8, bytes);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(beyond.error().message(), path_.string() + ": ends at byte 10, expected 2 more");
  EXPECT_FALSE(file->read(std::numeric_limits<std::uint64_t>::max(), bytes));
  fs::resize_file(path_, 2);  // behind our back
  EXPECT_FALSE(file->read(0, bytes));
}

TEST_F(InputFileTest, OnlyRegularFiles) {
  const auto missing = InputFile::open(path_.string() + ".none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  const auto directory = InputFile::open(path_.parent_path());
  ASSERT_FALSE(directory);
  EXPECT_NE(directory.error().message().find("is not a regular file"), std::string::npos);
  const std::string fifo = path_.string() + ".fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(InputFile::open(fifo));
  fs::remove(fifo);
}

}  // namespace
}  // namespace paceline::system
