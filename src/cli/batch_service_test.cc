#include "cli/batch_service.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>

namespace paceline::cli {
namespace {

class BatchServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 fmt::format("paceline-batch-service-{}", ::getpid());
    std::filesystem::remove_all(directory_);
    ::setenv("XDG_STATE_HOME", directory_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_STATE_HOME");
    std::filesystem::remove_all(directory_);
  }
  std::filesystem::path directory_;
};

TEST_F(BatchServiceTest, TheDefaultDirectory) {
  EXPECT_EQ(default_state_directory(), directory_ / "paceline");
  ::setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_THAT(default_state_directory().string(), testing::EndsWith(".local/state/paceline"));
}

TEST_F(BatchServiceTest, ASecondServerIsRefusedOnlyWhereItAskedForTheDirectory) {
  const auto first = BatchService::open("");
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->routes().size(), 9U);
  const auto second = BatchService::open("");
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(*second, nullptr);
  const auto third = BatchService::open((directory_ / "paceline").string());
  ASSERT_FALSE(third.has_value());
  EXPECT_THAT(third.error().message(), testing::HasSubstr("--state-dir"));
  (*first)->stop();
}

}  // namespace
}  // namespace paceline::cli
