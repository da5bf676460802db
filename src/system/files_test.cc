#include "system/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
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

TEST_F(FilesTest, ParentsThatWereMadeForNothingAreRemoved) {
  const fs::path target = directory_ / "a" / "b" / "package";
  { ASSERT_TRUE(AtomicDirectory::create(target)); }
  EXPECT_TRUE(fs::is_empty(directory_));
  {
    const auto made = AtomicDirectory::create(target);
    ASSERT_TRUE(made);
    std::ofstream(directory_ / "a" / "other") << "1";
  }
  EXPECT_TRUE(fs::exists(directory_ / "a" / "other")) << "but not with what others put there";
  EXPECT_FALSE(fs::exists(directory_ / "a" / "b"));
  ASSERT_TRUE(AtomicDirectory::create(directory_ / "c" / "package")->commit());
  EXPECT_TRUE(fs::exists(directory_ / "c" / "package"));
}

TEST_F(FilesTest, WhatAKilledProcessLeftIsRemoved) {
  // A child makes a directory, tells, and is killed.
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto made = AtomicDirectory::create(directory_ / "package");
    if (made) std::ofstream(made->path() / "f") << "1";
    (void)!::write(ends[1], "x", 1);
    for (;;) ::pause();
  }
  char told = 0;
  ASSERT_EQ(::read(ends[0], &told, 1), 1);
  const fs::path left = directory_ / fmt::format("package.partial-{}", child);
  ASSERT_TRUE(fs::exists(left / "f"));
  { ASSERT_TRUE(AtomicDirectory::create(directory_ / "package")); }
  EXPECT_TRUE(fs::exists(left / "f")) << "its process lives";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  { ASSERT_TRUE(AtomicDirectory::create(directory_ / "other")); }
  EXPECT_TRUE(fs::exists(left / "f")) << "another target's";
  { ASSERT_TRUE(AtomicDirectory::create(directory_ / "package")); }
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(FilesTest, WhatOnlyLooksStaleStays) {
  constexpr int kNoProcess = 0x3ffffffe;  // above every pid_max
  const fs::path locked = directory_ / fmt::format("p.partial-{}", kNoProcess);
  fs::create_directories(locked);
  fs::create_directories(directory_ / "p.partial-12x");
  fs::create_directories(directory_ / fmt::format("pp.partial-{}", kNoProcess));
  const int other = ::open(locked.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  { ASSERT_TRUE(AtomicDirectory::create(directory_ / "p")); }
  EXPECT_TRUE(fs::exists(locked)) << "somebody, on another machine perhaps, has its lock";
  EXPECT_TRUE(fs::exists(directory_ / "p.partial-12x"));
  EXPECT_TRUE(fs::exists(directory_ / fmt::format("pp.partial-{}", kNoProcess)));
  ::close(other);
  { ASSERT_TRUE(AtomicDirectory::create(directory_ / "p")); }
  EXPECT_FALSE(fs::exists(locked));
}

TEST_F(FilesTest, OneProcessMakesATargetOnceAtATime) {
  const auto first = AtomicDirectory::create(directory_ / "p");
  ASSERT_TRUE(first);
  const auto second = AtomicDirectory::create(directory_ / "p");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(first->path()));
}

TEST_F(FilesTest, WhatWasKeptIsGoneOnWith) {
  const fs::path target = directory_ / "a" / "package";
  {
    auto first = AtomicDirectory::resume(target);
    ASSERT_TRUE(first) << first.error().message();
    EXPECT_EQ(first->path(), directory_ / "a" / "package.partial");
    std::ofstream(first->path() / "f") << "1";
    EXPECT_EQ(AtomicDirectory::resume(target).error().code(), ErrorCode::kAlreadyExists);
    EXPECT_TRUE(fs::exists(first->path() / "f")) << "who does not have the lock removes nothing";
    AtomicDirectory::discard(target);
    EXPECT_TRUE(fs::exists(first->path() / "f"));
    first->keep();
  }
  EXPECT_FALSE(fs::exists(target));
  auto second = AtomicDirectory::resume(target);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_TRUE(fs::exists(second->path() / "f"));
  ASSERT_TRUE(second->commit());
  EXPECT_TRUE(fs::exists(target / "f"));
  EXPECT_FALSE(fs::exists(directory_ / "a" / "package.partial"));
}

TEST_F(FilesTest, WhatIsNotKeptOrIsDiscardedIsGone) {
  { ASSERT_TRUE(AtomicDirectory::resume(directory_ / "a" / "package")); }
  EXPECT_TRUE(fs::is_empty(directory_));
  AtomicDirectory::resume(directory_ / "package")->keep();
  EXPECT_TRUE(fs::exists(directory_ / "package.partial"));
  AtomicDirectory::discard(directory_ / "package" / "");
  EXPECT_TRUE(fs::is_empty(directory_));
  AtomicDirectory::discard(directory_ / "package");
}

TEST_F(FilesTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::ofstream(directory_ / "file") << "1";
  const auto refused = AtomicDirectory::create(directory_ / "file" / "p");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find((directory_ / "file").string()), std::string::npos);
}

}  // namespace
}  // namespace paceline::system
