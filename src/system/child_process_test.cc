#include "system/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace paceline::system {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }

TEST(ChildProcessTest, LinesAreReadUntilTheOutputEnds) {
  auto child = ChildProcess::spawn({"/bin/sh", "-c", "echo one; echo two"});
  ASSERT_TRUE(child) << child.error().message();
  EXPECT_EQ(child->read_line(soon()).value(), "one");
  EXPECT_EQ(child->read_line(soon()).value(), "two");
  EXPECT_EQ(child->read_line(soon()).error().code(), ErrorCode::kUnavailable);
}

TEST(ChildProcessTest, ASilentChildMeetsTheDeadlineAndIsEnded) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::spawn({"/bin/sleep", "600"});
    ASSERT_TRUE(child);
    pid = child->pid();
    const auto line = child->read_line(Deadline::after(std::chrono::milliseconds(20)));
    EXPECT_EQ(line.error().code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(ChildProcessTest, AChildThatIgnoresTheSignalIsKilled) {
  auto child =
      ChildProcess::spawn({"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"});
  ASSERT_TRUE(child);
  ASSERT_EQ(child->read_line(soon()).value(), "ready");
  const pid_t pid = child->pid();
  { const ChildProcess ended = std::move(*child); }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(ChildProcessTest, AMissingProgramIsNamed) {
  const auto child = ChildProcess::spawn({"/no/such/program"});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(child.error().message().find("/no/such/program"), std::string::npos);
}

TEST(ChildProcessTest, TheOwnProgramIsThisTest) {
  EXPECT_NE(own_program_path().value().find("paceline_system_test"), std::string::npos);
}

}  // namespace
}  // namespace paceline::system
