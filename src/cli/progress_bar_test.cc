#include "cli/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

namespace paceline::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

/// Time that stands still until it is told.
class SetClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void pass(Duration time) { now_ += time; }

 private:
  TimePoint now_ = TimePoint() + 1h;
};

class ProgressBarTest : public testing::Test {
 protected:
  /// What `use` makes a bar write.
  template <typename Use>
  std::string written(bool is_terminal, Use use) {
    std::FILE* const file = std::tmpfile();
    {
      ProgressBar bar(clock_, file, is_terminal);
      use(bar);
    }
    std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return text;
  }

  static constexpr std::uint64_t kGiga = 1'000'000'000;
  SetClock clock_;
};

TEST_F(ProgressBarTest, ALineEveryQuarterWhereThereIsNoTerminal) {
  const std::string text = written(false, [&](ProgressBar& bar) {
    for (std::uint64_t i = 0; i <= 100; ++i) {
      EXPECT_TRUE(bar.update("weights", i * 10 * kGiga, 1000 * kGiga));
      clock_.pass(10s);
    }
    bar.update("hashing", 0, 10);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
  EXPECT_THAT(text, HasSubstr("weights     25 %  1000 MB/s, 12 min 30 s left\n"));
  EXPECT_THAT(text, HasSubstr("weights    100 %  1000 MB/s, 0 s left\n"));
  EXPECT_THAT(text, HasSubstr("hashing      0 %\n"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST_F(ProgressBarTest, WhatWasThereAlreadyIsNoSpeed) {
  const std::string text = written(false, [&](ProgressBar& bar) {
    bar.update("weights", 90 * kGiga, 100 * kGiga);
    clock_.pass(2s);
    bar.update("weights", 100 * kGiga, 100 * kGiga);
  });
  EXPECT_THAT(text, HasSubstr("weights    100 %  5000 MB/s, 0 s left\n"));
}

TEST_F(ProgressBarTest, HoursAreTold) {
  const std::string text = written(false, [&](ProgressBar& bar) {
    bar.update("weights", 0, 100 * kGiga);
    clock_.pass(100s);
    bar.update("weights", kGiga, 4 * kGiga);
    bar.update("weights", kGiga, 100 * kGiga);
  });
  EXPECT_THAT(text, HasSubstr("10 MB/s, 5 min 00 s left"));
  EXPECT_THAT(written(true,
                      [&](ProgressBar& bar) {
                        bar.update("weights", 0, 100 * kGiga);
                        clock_.pass(100s);
                        bar.update("weights", kGiga, 100 * kGiga);
                      }),
              HasSubstr("10 MB/s, 2 h 45 min left"));
}

TEST_F(ProgressBarTest, ABarOnATerminal) {
  const std::string text = written(true, [&](ProgressBar& bar) {
    bar.update("weights", 0, 100);
    bar.update("weights", 10, 100);  // too soon to be shown
    clock_.pass(1s);
    bar.update("weights", 50, 100);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  EXPECT_THAT(text, HasSubstr("[###############...............] weights     50 %"));
  EXPECT_EQ(text.back(), '\n');
}

TEST_F(ProgressBarTest, ANoteIsALineOfItsOwn) {
  EXPECT_EQ(written(false, [](ProgressBar& bar) { bar.note("groups of 64"); }), "groups of 64\n");
  EXPECT_EQ(written(true, [](ProgressBar& bar) { bar.note("groups of 64"); }),
            "\r\033[Kgroups of 64\n");
}

}  // namespace
}  // namespace paceline::cli
