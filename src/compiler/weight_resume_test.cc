#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/weight_writer_testing.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

using WeightResumeTest = ManyBlocksTest;

/// Lets some blocks through, then asks for an end.
class StopsAfter final : public Progress {
 public:
  explicit StopsAfter(int blocks) : left_(blocks) {}
  bool update(std::string_view, std::uint64_t done, std::uint64_t) override {
    if (first == 0) first = done;
    return --left_ > 0;
  }
  std::uint64_t first = 0;

 private:
  int left_;
};

TEST_F(WeightResumeTest, AnInterruptedRunGoesOnWhereItWas) {
  ASSERT_TRUE(write(options_, quiet_));
  const std::string expected = content(bin_path());
  const std::uint64_t all = source_.read_bytes;
  for (const std::uint32_t jobs : {1U, 2U}) {
    fs::remove(bin_path());
    fs::remove(directory_ / "journal");
    WriteOptions options = resumable();
    options.jobs = jobs;
    source_.read_bytes = 0;
    StopsAfter impatient(5);
    const auto cancelled = write(options, impatient);
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
    const auto resumed = write(options, quiet_);
    ASSERT_TRUE(resumed) << resumed.error().message();
    EXPECT_TRUE(content(bin_path()) == expected);
    EXPECT_LT(source_.read_bytes, all + all / 2) << "finished blocks are not converted again";
    source_.read_bytes = 0;
    const auto again = write(options, quiet_);
    ASSERT_TRUE(again);
    EXPECT_EQ(source_.read_bytes, 0U);
    EXPECT_EQ(again->at("model.embed_tokens.weight").errors.error_squares,
              resumed->at("model.embed_tokens.weight").errors.error_squares);
  }
}

TEST_F(WeightResumeTest, BlocksThatTheDiskLostAreWrittenAgain) {
  ASSERT_TRUE(write(resumable(), quiet_));
  const std::string expected = content(bin_path());
  fs::resize_file(bin_path(), expected.size() / 2);
  std::fstream file(bin_path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(1000);
  file.put('\x55');
  file.close();
  ASSERT_TRUE(write(resumable(), quiet_));
  EXPECT_TRUE(content(bin_path()) == expected);
}

TEST_F(WeightResumeTest, OtherOptionsOrAnotherSourceBeginAnew) {
  ASSERT_TRUE(write(resumable(), quiet_));
  for (const int change : {0, 1, 2}) {
    WriteOptions options = resumable();
    if (change == 0) options.weights.group = 32;
    if (change == 1) options.weights.search = false;
    if (change == 2) options.source_identity = "written a second later";
    source_.read_bytes = 0;
    ASSERT_TRUE(write(options, quiet_));
    EXPECT_GT(source_.read_bytes, 0U);
    const std::string resumed = content(bin_path());
    options.journal.clear();
    ASSERT_TRUE(write(options, quiet_));
    EXPECT_TRUE(content(bin_path()) == resumed) << "nothing of earlier work is left";
  }
}

}  // namespace
}  // namespace paceline::compiler
