#include "compiler/weight_journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

class WeightJournalTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() / fmt::format("paceline-journal-{}", ::getpid());
    fs::remove(path_);
  }
  void TearDown() override { fs::remove(path_); }

  WeightJournal open(const char* identity = "this", std::uint64_t blocks = 10) const {
    return WeightJournal::open(path_, shard::sha256(std::string_view(identity)), blocks).value();
  }
  static BlockRecord record(float number) {
    BlockRecord result;
    result.facts.errors = {number, 2.0 * number, 3.0, 4.0, 5.0F, 6.0F};
    result.facts.largest_scale = 7.0F;
    result.facts.largest_offset = number;
    result.digest[3] = static_cast<std::uint8_t>(number);
    return result;
  }
  static void expect_record(const std::optional<BlockRecord>& found, float number) {
    ASSERT_TRUE(found);
    const BlockRecord expected = record(number);
    EXPECT_EQ(found->facts.errors.squares, expected.facts.errors.squares);
    EXPECT_EQ(found->facts.errors.error_squares, expected.facts.errors.error_squares);
    EXPECT_EQ(found->facts.errors.weighted_squares, 3.0);
    EXPECT_EQ(found->facts.errors.weighted_error_squares, 4.0);
    EXPECT_EQ(found->facts.errors.largest_value, 5.0F);
    EXPECT_EQ(found->facts.errors.largest_error, 6.0F);
    EXPECT_EQ(found->facts.largest_scale, 7.0F);
    EXPECT_EQ(found->facts.largest_offset, number);
    EXPECT_EQ(found->digest, expected.digest);
  }

  fs::path path_;
};

TEST_F(WeightJournalTest, RecordsAreFoundAgainAndAddedTo) {
  {
    WeightJournal journal = open();
    EXPECT_EQ(journal.recorded(), 0U);
    ASSERT_TRUE(journal.add(7, record(1)));
    ASSERT_TRUE(journal.add(2, record(2)));
  }
  {
    WeightJournal journal = open();
    EXPECT_EQ(journal.recorded(), 2U);
    expect_record(journal.records()[7], 1);
    expect_record(journal.records()[2], 2);
    ASSERT_TRUE(journal.add(0, record(3)));
  }
  EXPECT_EQ(open().recorded(), 3U);
}

TEST_F(WeightJournalTest, OtherWorkBeginsAnew) {
  ASSERT_TRUE(open().add(7, record(1)));
  EXPECT_EQ(open("other").recorded(), 0U);
  EXPECT_EQ(open("this").recorded(), 0U) << "the other work's journal took its place";
}

TEST_F(WeightJournalTest, ARecordThatIsCutShortOrDamagedEndsTheFile) {
  {
    WeightJournal journal = open();
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(journal.add(i, record(1)));
  }
  const auto size = fs::file_size(path_);
  fs::resize_file(path_, size - 3);
  EXPECT_EQ(open().recorded(), 4U);
  ASSERT_TRUE(open().add(9, record(9)));
  EXPECT_EQ(open().recorded(), 5U) << "the end that was cut is written over";
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40 + 96 * 2 + 20);
  file.put('\x55');
  file.close();
  EXPECT_EQ(open().recorded(), 2U);
}

TEST_F(WeightJournalTest, NeitherGarbageNorStrangeBlocksAreTaken) {
  std::ofstream(path_) << std::string(1000, 'x');
  EXPECT_EQ(open().recorded(), 0U);
  ASSERT_TRUE(open().add(9, record(1)));
  EXPECT_EQ(open("this", 9).recorded(), 0U) << "block 9 of 9";
}

TEST_F(WeightJournalTest, APlaceThatCannotBeWrittenIsNamed) {
  const auto journal = WeightJournal::open("/nowhere/journal", {}, 1);
  ASSERT_FALSE(journal);
  EXPECT_NE(journal.error().message().find("/nowhere/journal"), std::string::npos);
}

}  // namespace
}  // namespace paceline::compiler
