#include "coordinator/step_translation.h"

#include <gmock/gmock.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;

wire::SequenceSpec spec_of(const sched::OpenedSequence& opened) {
  wire::SequenceSpec spec;
  spec.sequence = opened.sequence;
  spec.prompt_tokens = 5;
  return spec;
}

TEST(StepTranslationTest, RowsDraftsAndOperationsAreThoseOfThePlan) {
  sched::StepPlan plan;
  plan.id = StepId(7);
  plan.copies = {{BlockId(3), BlockId(4)}};
  sched::PlannedRows rows;
  rows.sequence = SequenceId(2);
  rows.past_tokens = 9;
  rows.tokens = {std::int64_t{10}, std::int64_t{11}, std::int64_t{12}};
  rows.sampled_rows = {0, 1, 2};
  rows.drafts = 2;
  rows.fork_from = SequenceId(1);
  rows.truncate_to = 9;
  rows.blocks = {BlockId(0), BlockId(4)};
  plan.sequences = {rows};
  plan.opened = {{SequenceId(2), {}, 10, {}}};
  plan.freed = {SequenceId(8)};
  const wire::Step step = translate(plan, {}, spec_of);
  ASSERT_EQ(step.sequences.size(), 2U);
  const wire::StepSequence& entry = step.sequences[0];
  EXPECT_EQ(entry.sequence, SequenceId(2));
  EXPECT_EQ(entry.past_tokens, 9U);
  EXPECT_EQ(entry.new_tokens, 3U);
  EXPECT_THAT(entry.sampled_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(entry.drafts, ElementsAre(11, 12));
  EXPECT_EQ(entry.operations,
            (std::vector<wire::Operation>{wire::Fork{SequenceId(1)}, wire::Truncate{9}}))
      << "the fork comes before the cut";
  EXPECT_EQ(entry.blocks, (std::vector<std::vector<BlockId>>{{BlockId(0), BlockId(4)}}));
  EXPECT_EQ(step.sequences[1].sequence, SequenceId(8));
  EXPECT_EQ(step.sequences[1].operations, std::vector<wire::Operation>{wire::Free()});
  EXPECT_EQ(step.copies, (std::vector<wire::BlockCopy>{{0, BlockId(3), BlockId(4)}}));
  ASSERT_EQ(step.opened.size(), 1U);
  EXPECT_EQ(step.opened[0].prompt_tokens, 5U);
}

TEST(StepTranslationTest, ReferencesAreByTheChainsNumbers) {
  sched::StepPlan plan;
  sched::PlannedRows rows;
  rows.tokens = {sched::TokenReference{StepId(3), 6}};
  plan.sequences = {rows};
  const wire::Step step = translate(plan, {{StepId(3), StepId(103)}}, spec_of);
  const auto& token = step.sequences.at(0).tokens.at(0);
  EXPECT_EQ(std::get<wire::TokenReference>(token), (wire::TokenReference{StepId(103), 6}));
}

}  // namespace
}  // namespace paceline::coordinator
