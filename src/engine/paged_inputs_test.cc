#include "engine/paged_inputs.h"

#include <gmock/gmock.h>

namespace paceline::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SequenceRows rows(std::uint64_t id, std::uint32_t past, std::uint32_t count,
                  std::vector<std::uint32_t> blocks, std::vector<std::uint32_t> sampled) {
  SequenceRows result;
  result.sequence = SequenceId(id);
  result.past_tokens = past;
  result.new_tokens = count;
  for (const std::uint32_t block : blocks) result.blocks.emplace_back(block);
  result.sampled_rows = std::move(sampled);
  return result;
}

PagedAddressing addressing(std::uint32_t blocks_per_logical = 1) {
  PagedAddressing result;
  result.kv_blocks = 8;
  result.blocks_per_logical = blocks_per_logical;
  return result;
}

TEST(PagedInputsTest, RowsOfSeveralSequencesAreConcatenated) {
  StageBatch batch;
  batch.sequences = {rows(1, 0, 3, {5}, {2}), rows(2, 40, 1, {7, 0}, {0})};
  batch.tokens = {11, 12, 13, 21};
  const auto inputs = make_paged_inputs(batch, addressing(), false).value();
  EXPECT_THAT(inputs.input_ids, ElementsAre(11, 12, 13, 21));
  EXPECT_THAT(inputs.position_ids, ElementsAre(0, 1, 2, 40));
  EXPECT_THAT(inputs.past_lens, ElementsAre(0, 40));
  EXPECT_THAT(inputs.subsequence_begins, ElementsAre(0, 3, 4));
  EXPECT_THAT(inputs.block_indices, ElementsAre(5, 7, 0));
  EXPECT_THAT(inputs.block_indices_begins, ElementsAre(0, 1, 3));
  EXPECT_EQ(inputs.max_context_len, 41);
  EXPECT_THAT(inputs.sampled_rows, ElementsAre(2, 3));
  EXPECT_EQ(inputs.padding_rows, 0U);
}

TEST(PagedInputsTest, LogicalBlocksExpandToTheEngines) {
  StageBatch batch;
  batch.sequences = {rows(1, 30, 5, {3, 1}, {})};
  const auto inputs = make_paged_inputs(batch, addressing(2), false).value();
  // 35 tokens take three engine blocks of 16: two of logical 3, one of logical 1.
  EXPECT_THAT(inputs.block_indices, ElementsAre(6, 7, 2));
}

TEST(PagedInputsTest, SparePreallocatedBlocksAreNotNamed) {
  StageBatch batch;
  batch.sequences = {rows(1, 0, 2, {3, 1, 4}, {})};
  EXPECT_THAT(make_paged_inputs(batch, addressing(), false)->block_indices, ElementsAre(3));
}

TEST(PagedInputsTest, ASingleRowIsFollowedByAPaddingRow) {
  StageBatch batch;
  batch.sequences = {rows(1, 9, 1, {2}, {0})};
  batch.tokens = {77};
  const auto inputs = make_paged_inputs(batch, addressing(), true).value();
  EXPECT_THAT(inputs.input_ids, ElementsAre(77, 0));
  EXPECT_THAT(inputs.position_ids, ElementsAre(9, 9));
  EXPECT_THAT(inputs.past_lens, ElementsAre(9));
  EXPECT_THAT(inputs.subsequence_begins, ElementsAre(0, 2));
  EXPECT_THAT(inputs.block_indices, ElementsAre(2));
  EXPECT_EQ(inputs.max_context_len, 11);
  EXPECT_THAT(inputs.sampled_rows, ElementsAre(0, 0));
  EXPECT_THAT(inputs.is_wanted, ElementsAre(true, false));
  EXPECT_EQ(inputs.padding_rows, 1U);
  EXPECT_EQ(inputs.padding_samples, 1U);
}

TEST(PagedInputsTest, EachSequenceOfOneRowIsPadded) {
  StageBatch batch;
  batch.sequences = {rows(1, 0, 2, {5}, {1}), rows(2, 31, 1, {7}, {0}), rows(3, 4, 1, {1}, {0})};
  batch.tokens = {11, 12, 21, 31};
  const auto inputs = make_paged_inputs(batch, addressing(), true).value();
  EXPECT_THAT(inputs.input_ids, ElementsAre(11, 12, 21, 0, 31, 0));
  EXPECT_THAT(inputs.is_wanted, ElementsAre(true, true, true, false, true, false));
  EXPECT_THAT(inputs.subsequence_begins, ElementsAre(0, 2, 4, 6));
  // The block of sequence 2 is full: what follows goes into the padding block.
  EXPECT_THAT(inputs.block_indices, ElementsAre(5, 7, 8, 1));
  EXPECT_THAT(inputs.block_indices_begins, ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(inputs.sampled_rows, ElementsAre(1, 2, 4));
  EXPECT_EQ(inputs.padding_rows, 2U);
  EXPECT_EQ(inputs.padding_samples, 0U);
}

TEST(PagedInputsTest, ASingleSampleOfManyRowsIsPaddedInTheHeadOnly) {
  StageBatch batch;
  batch.sequences = {rows(1, 0, 4, {2}, {3})};
  batch.tokens = {1, 2, 3, 4};
  const auto inputs = make_paged_inputs(batch, addressing(), true).value();
  EXPECT_EQ(inputs.padding_rows, 0U);
  EXPECT_THAT(inputs.sampled_rows, ElementsAre(3, 3));
  EXPECT_EQ(inputs.padding_samples, 1U);
}

TEST(PagedInputsTest, LaterStagesHaveNoTokensEvenWhenPadded) {
  StageBatch batch;
  batch.sequences = {rows(1, 9, 1, {2}, {})};
  const auto inputs = make_paged_inputs(batch, addressing(), true).value();
  EXPECT_THAT(inputs.input_ids, IsEmpty());
  EXPECT_THAT(inputs.sampled_rows, IsEmpty());
}

struct BadBatch {
  SequenceRows sequence;
  const char* message;
};

TEST(PagedInputsTest, BadBatchesAreRefusedByName) {
  const BadBatch cases[] = {
      {rows(4, 0, 0, {1}, {}), "sequence 4 has no rows"},
      {rows(4, 31, 2, {1}, {}), "sequence 4 has 1 blocks, 33 tokens need 2"},
      {rows(4, 0, 1, {8}, {}), "names KV block 8, there are 8"},
      {rows(4, 0, 2, {1}, {2}), "samples row 2 of 2"},
      {rows(4, 0xffffffffU, 0xffffffffU, {1}, {}), "blocks"},
  };
  for (const BadBatch& bad : cases) {
    StageBatch batch;
    batch.sequences = {bad.sequence};
    const auto inputs = make_paged_inputs(batch, addressing(), false);
    ASSERT_FALSE(inputs);
    EXPECT_EQ(inputs.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(inputs.error().message(), HasSubstr(bad.message));
  }
  EXPECT_FALSE(make_paged_inputs(StageBatch(), addressing(), false));
}

}  // namespace
}  // namespace paceline::engine
