#include "worker/row_sum.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace paceline::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

wire::StepSequence rows_at(std::uint32_t past) {
  wire::StepSequence entry;
  entry.sequence = SequenceId(4);
  entry.past_tokens = past;
  entry.new_tokens = 1;
  return entry;
}

TEST(RowSumTest, TheMeanIsOfThePromptsRowsAlone) {
  const RowSum none(3);
  EXPECT_FALSE(none.ends_with(2));
  EXPECT_EQ(none.last_row(), 2U);
  const std::vector<float> first = {1, 10, 2, 20};
  const RowSum two = none.plus(first, 2);
  EXPECT_TRUE(two.ends_with(1));
  EXPECT_EQ(two.last_row(), 0U);
  const std::vector<float> rest = {6, 60, 1000, 1000};
  EXPECT_THAT(two.plus(rest, 2).mean(), ElementsAre(3.0F, 30.0F));
  EXPECT_THAT(two.plus(rest, 2).mean(), ElementsAre(3.0F, 30.0F)) << "adding changes nothing here";
}

TEST(RowSumTest, ChunksChangeNoBit) {
  std::mt19937 random(3);
  constexpr std::size_t kWidth = 5;
  constexpr std::uint32_t kRows = 40;
  std::vector<float> rows(kRows * kWidth);
  // Of very different sizes: any other order would show.
  for (float& value : rows) {
    value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                       static_cast<int>(random() % 100) - 50);
  }
  const std::vector<float> expected = RowSum(kRows).plus(rows, kWidth).mean();
  for (int round = 0; round < 50; ++round) {
    RowSum sum(kRows);
    std::span<const float> left = rows;
    while (!left.empty()) {
      const std::size_t count = std::min<std::size_t>(1 + random() % 9, left.size() / kWidth);
      sum = sum.plus(left.first(count * kWidth), kWidth);
      left = left.subspan(count * kWidth);
    }
    EXPECT_EQ(sum.mean(), expected);
  }
}

TEST(RowSumTest, RowsThatDoNotFollowAreRefused) {
  const std::vector<float> row = {1};
  const RowSum sum = RowSum(3).plus(row, 1);
  EXPECT_TRUE(sum.check(rows_at(1)));
  const auto refused = [&sum](const wire::StepSequence& entry) {
    const auto status = sum.check(entry);
    if (status) return std::string("accepted");
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
    return status.error().message();
  };
  EXPECT_THAT(refused(rows_at(2)), HasSubstr("from token 1 on"));
  EXPECT_THAT(refused(rows_at(0)), HasSubstr("got them from 0"));
  auto entry = rows_at(1);
  entry.drafts = {5};
  EXPECT_THAT(refused(entry), HasSubstr("drafts"));
  for (const wire::Operation operation :
       {wire::Operation(wire::Fork{SequenceId(1)}), wire::Operation(wire::Truncate{1})}) {
    entry = rows_at(1);
    entry.operations = {operation};
    EXPECT_THAT(refused(entry), HasSubstr("sequence 4 wants the mean of its prompt"));
  }
}

}  // namespace
}  // namespace paceline::worker
