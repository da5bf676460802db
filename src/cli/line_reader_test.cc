#include "cli/line_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string_view>
#include <thread>

namespace paceline::cli {
namespace {

class LineReaderTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(ends_.data()), 0); }
  void TearDown() override {
    ::close(ends_[0]);
    end_input();
  }
  void type(std::string_view text) {
    ASSERT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void end_input() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_ = {-1, -1};
  std::atomic<bool> interrupted_ = false;
  std::string line_;
};

TEST_F(LineReaderTest, TakesLinesHoweverTheyCome) {
  LineReader reader(ends_[0], interrupted_);
  type("one\n\ntw");
  ASSERT_TRUE(reader.next(line_));
  EXPECT_EQ(line_, "one");
  ASSERT_TRUE(reader.next(line_));
  EXPECT_EQ(line_, "");
  std::thread later([this] { type("o\nthree"); });
  ASSERT_TRUE(reader.next(line_));
  EXPECT_EQ(line_, "two");
  later.join();
  end_input();
  ASSERT_TRUE(reader.next(line_));
  EXPECT_EQ(line_, "three");
  EXPECT_FALSE(reader.next(line_));
}

TEST_F(LineReaderTest, ALineLongerThanOneRead) {
  LineReader reader(ends_[0], interrupted_);
  const std::string text(10000, 'x');
  type(text + "\n");
  ASSERT_TRUE(reader.next(line_));
  EXPECT_EQ(line_, text);
}

TEST_F(LineReaderTest, AnInterruptionEndsTheWait) {
  LineReader reader(ends_[0], interrupted_);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    interrupted_.store(true);
  });
  EXPECT_FALSE(reader.next(line_));
  later.join();
}

}  // namespace
}  // namespace paceline::cli
