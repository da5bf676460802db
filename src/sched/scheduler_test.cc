#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>

namespace paceline::sched {
namespace {

using Tokens = std::vector<std::int64_t>;

SchedulerOptions small() {
  SchedulerOptions options;
  options.context_tokens = 64;
  options.kv_blocks = 8;
  options.block_tokens = 4;
  options.max_running = 4;
  options.max_waiting = 4;
  return options;
}

Request request(std::uint64_t id, std::size_t prompt, std::uint32_t answer = 4) {
  Request request;
  request.id = RequestId(id);
  request.prompt.resize(prompt);
  std::iota(request.prompt.begin(), request.prompt.end(), static_cast<std::int64_t>(100 * id));
  request.max_tokens = answer;
  request.arrival = TimePoint(std::chrono::milliseconds(id));
  return request;
}

StepPlan must_plan(Scheduler& scheduler) {
  auto step = scheduler.plan(TimePoint(std::chrono::seconds(1)));
  EXPECT_TRUE(step);
  return step ? std::move(*step) : StepPlan();
}

std::vector<Progress> must_commit(Scheduler& scheduler, const StepPlan& step, Tokens sampled) {
  auto progress = scheduler.commit(step.id, sampled);
  EXPECT_TRUE(progress) << (progress ? "" : progress.error().message());
  EXPECT_TRUE(scheduler.check()) << scheduler.check().error().message();
  return progress ? std::move(*progress) : std::vector<Progress>();
}

void expect_refused(const Status& status, ErrorCode code, std::string_view message) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), code);
  EXPECT_EQ(status.error().message(), message);
}

TEST(SchedulerTest, RefusesByNameWhatCanNeverRun) {
  Scheduler scheduler(small());
  expect_refused(scheduler.submit(request(1, 0)), ErrorCode::kInvalidArgument,
                 "the prompt is empty");
  expect_refused(
      scheduler.submit(request(1, 64)), ErrorCode::kInvalidArgument,
      "the prompt has 64 tokens, the context holds 64 with the answer; shorten it or raise --ctx");
  expect_refused(scheduler.submit(request(1, 33)), ErrorCode::kInvalidArgument,
                 "the prompt has 33 tokens, the KV cache of the chain holds 32");
  expect_refused(scheduler.submit(request(1, 3, 0)), ErrorCode::kInvalidArgument,
                 "max tokens is 0");
  Request many = request(1, 3);
  many.choices = 65;
  expect_refused(scheduler.submit(many), ErrorCode::kInvalidArgument,
                 "choices: 65, expected 1 to 64");
  Request urgent = request(1, 3);
  urgent.priority = 1001;
  expect_refused(scheduler.submit(urgent), ErrorCode::kInvalidArgument,
                 "priority: 1001, expected -1000 to 1000");
  Request odd = request(1, 3);
  odd.prompt[1] = -5;
  expect_refused(scheduler.submit(odd), ErrorCode::kInvalidArgument,
                 "prompt: a token id is below 0");
  Request summed = request(1, 3);
  summed.sums_prompt = true;
  expect_refused(scheduler.submit(summed), ErrorCode::kInvalidArgument,
                 "a prompt that is summed has 1 answers of 4 tokens, expected 1 of 1");
  EXPECT_TRUE(scheduler.is_idle());
  EXPECT_FALSE(scheduler.plan(TimePoint()));
}

TEST(SchedulerTest, RefusesWhatIsTooMuchNow) {
  Scheduler scheduler(small());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler.submit(request(id, 3)));
  expect_refused(scheduler.submit(request(5, 3)), ErrorCode::kResourceExhausted,
                 "4 answers are waiting, at most 4 can; try again later");
  expect_refused(scheduler.submit(request(2, 3)), ErrorCode::kAlreadyExists,
                 "request 2 is here already");
  must_plan(scheduler);
  EXPECT_TRUE(scheduler.submit(request(5, 3))) << "those that were begun do not wait";
  expect_refused(scheduler.cancel(RequestId(77)), ErrorCode::kNotFound, "request 77 is not here");
  expect_refused(scheduler.stop({RequestId(1), 3}), ErrorCode::kNotFound,
                 "answer 3 of request 1 is not here");
}

TEST(SchedulerTest, WhoTakesAPlaceIsNotTooMany) {
  Scheduler scheduler(small());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler.submit(request(id, 3)));
  Request next = request(5, 3);
  next.keeps_place = true;
  EXPECT_TRUE(scheduler.submit(next));
  EXPECT_EQ(scheduler.stats().waiting, 5U);
}

TEST(SchedulerTest, APromptThatIsSummedIsComputedWholeSoManyInAStep) {
  SchedulerOptions options = small();
  options.kv_blocks = 32;
  options.max_sums = 2;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(request(1, 9, 1)));
  must_commit(scheduler, must_plan(scheduler), {5});
  for (std::uint64_t id = 2; id <= 5; ++id) {
    Request summed = request(id, 9, 1);
    summed.prompt = request(1, 9).prompt;
    summed.sums_prompt = id > 2;
    ASSERT_TRUE(scheduler.submit(summed));
  }
  const StepPlan step = must_plan(scheduler);
  ASSERT_EQ(step.sequences.size(), 3U) << "one is not summed, two are, the last has to wait";
  EXPECT_EQ(step.sequences[0].past_tokens, 8U) << "what is cached is used";
  for (const std::size_t summed : {1U, 2U}) {
    EXPECT_EQ(step.sequences[summed].past_tokens, 0U);
    EXPECT_EQ(step.sequences[summed].tokens.size(), 9U);
    EXPECT_EQ(step.sequences[summed].sampled_rows, std::vector<std::uint32_t>{8});
  }
  const auto ended = must_commit(scheduler, step, {5, 5, 5});
  ASSERT_EQ(ended.size(), 3U);
  EXPECT_TRUE(ended[2].is_finished);
  const StepPlan last = must_plan(scheduler);
  ASSERT_EQ(last.sequences.size(), 1U);
  EXPECT_EQ(last.sequences[0].past_tokens, 0U);
}

TEST(SchedulerTest, AnAnswerEndsAtItsTokenItsLengthOrTheKvCache) {
  Scheduler scheduler(small());
  Request by_token = request(1, 3, 10);
  by_token.end_tokens = {7};
  ASSERT_TRUE(scheduler.submit(by_token));
  ASSERT_TRUE(scheduler.submit(request(2, 3, 1)));
  const auto ended = must_commit(scheduler, must_plan(scheduler), {7, 9});
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].reason, FinishReason::kEndToken);
  EXPECT_EQ(ended[0].tokens, Tokens{7});
  EXPECT_EQ(ended[1].reason, FinishReason::kLength);
  EXPECT_EQ(ended[1].first_sample, 1U);
  const StepPlan farewell = must_plan(scheduler);
  EXPECT_EQ(farewell.freed.size(), 2U) << "the stages are told even if nothing else is to do";
  EXPECT_TRUE(farewell.sequences.empty());
  must_commit(scheduler, farewell, {});
  EXPECT_TRUE(scheduler.is_idle());

  // 32 tokens of KV: the 33rd token needs none.
  ASSERT_TRUE(scheduler.submit(request(3, 30, 100)));
  must_commit(scheduler, must_plan(scheduler), {1});
  must_commit(scheduler, must_plan(scheduler), {2});
  const auto full = must_commit(scheduler, must_plan(scheduler), {3});
  ASSERT_EQ(full.size(), 1U);
  EXPECT_TRUE(full[0].is_finished);
}

TEST(SchedulerTest, WrongResultsChangeNothing) {
  Scheduler scheduler(small());
  ASSERT_TRUE(scheduler.submit(request(1, 3)));
  const StepPlan step = must_plan(scheduler);
  EXPECT_EQ(scheduler.commit(step.id, Tokens{1, 2}).error().message(),
            "step 1 gave 2 samples, 1 were asked for");
  EXPECT_EQ(scheduler.commit(step.id, Tokens{-1}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(scheduler.commit(StepId(2), Tokens{1}).error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(scheduler.rollback(StepId(2)).error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(must_commit(scheduler, step, {5}).size(), 1U);
  EXPECT_EQ(scheduler.tokens({RequestId(1), 0}).back(), 5);
  EXPECT_TRUE(scheduler.tokens({RequestId(2), 0}).empty());
}

TEST(SchedulerTest, ACancelledRequestReachesTheStagesWithTheNextStep) {
  Scheduler scheduler(small());
  ASSERT_TRUE(scheduler.submit(request(1, 5, 9)));
  ASSERT_TRUE(scheduler.submit(request(2, 5, 9)));
  const StepPlan first = must_plan(scheduler);
  const SequenceId gone = first.sequences[0].sequence;
  ASSERT_TRUE(scheduler.cancel(RequestId(1)));
  const StepPlan next = must_plan(scheduler);
  EXPECT_EQ(next.freed, std::vector<SequenceId>{gone});
  const auto progress = must_commit(scheduler, first, {11, 12});
  ASSERT_EQ(progress.size(), 1U) << "what it had in flight is dropped";
  EXPECT_EQ(progress[0].key.request, RequestId(2));
}

TEST(SchedulerTest, PromptsGoInChunksSeveralInFlightAndDecodesFirst) {
  SchedulerOptions options = small();
  options.kv_blocks = 32;
  Scheduler scheduler(options);
  scheduler.set_pipeline({1, 3, 8});
  ASSERT_TRUE(scheduler.submit(request(1, 2, 9)));
  must_commit(scheduler, must_plan(scheduler), {50});
  ASSERT_TRUE(scheduler.submit(request(2, 17)));
  const StepPlan mixed = must_plan(scheduler);
  ASSERT_EQ(mixed.sequences.size(), 2U);
  EXPECT_EQ(mixed.sequences[0].tokens, (std::vector<TokenInput>{std::int64_t{50}}));
  EXPECT_EQ(mixed.sequences[1].tokens.size(), 7U);
  EXPECT_TRUE(mixed.sequences[1].sampled_rows.empty());
  const StepPlan second = must_plan(scheduler);
  ASSERT_EQ(second.sequences.size(), 1U);
  EXPECT_EQ(second.sequences[0].past_tokens, 7U);
  EXPECT_EQ(second.rows(), 8U);
  const StepPlan last = must_plan(scheduler);
  EXPECT_EQ(last.rows(), 2U);
  EXPECT_EQ(last.sequences[0].sampled_rows, std::vector<std::uint32_t>{1});
  EXPECT_FALSE(scheduler.plan(TimePoint())) << "three are in flight";
}

TEST(SchedulerTest, DecodesAreSpreadOverTheGroups) {
  SchedulerOptions options = small();
  options.kv_blocks = 32;
  Scheduler scheduler(options);
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler.submit(request(id, 2, 9)));
  scheduler.set_pipeline({2, 3, 64});
  must_commit(scheduler, must_plan(scheduler), {1, 2, 3, 4});
  const StepPlan a = must_plan(scheduler);
  const StepPlan b = must_plan(scheduler);
  EXPECT_EQ(a.sequences.size(), 2U);
  EXPECT_EQ(b.sequences.size(), 2U);
  EXPECT_FALSE(scheduler.plan(TimePoint())) << "no third group for decodes";
  must_commit(scheduler, a, {5, 6});
  EXPECT_EQ(must_plan(scheduler).sequences[0].key, a.sequences[0].key);
}

TEST(SchedulerTest, RowsAheadNameTokensThatAreNotSampledYet) {
  SchedulerOptions options = small();
  options.steps_ahead = 1;
  options.resolves_references = true;
  Scheduler scheduler(options);
  scheduler.set_pipeline({2, 2, 64});
  Request one = request(1, 3, 9);
  one.end_tokens = {7};
  ASSERT_TRUE(scheduler.submit(one));
  const StepPlan first = must_plan(scheduler);
  const StepPlan ahead = must_plan(scheduler);
  ASSERT_EQ(ahead.sequences.size(), 1U);
  EXPECT_EQ(ahead.sequences[0].tokens, (std::vector<TokenInput>{TokenReference{first.id, 2}}));
  EXPECT_EQ(ahead.sequences[0].past_tokens, 3U);
  EXPECT_TRUE(must_commit(scheduler, first, {7})[0].is_finished);
  EXPECT_TRUE(must_commit(scheduler, ahead, {8}).empty()) << "a row after the end is dropped";
  EXPECT_EQ(scheduler.stats().wasted_rows, 1U);
}

/// Proposes what it is told to.
class FixedDrafts final : public spec::DraftSource {
 public:
  void open(spec::LineId, std::string_view) override {}
  spec::Draft propose(spec::LineId, std::span<const std::int64_t>, std::span<const std::int64_t>,
                      const spec::DraftRoom& room) override {
    last_room = room;
    return {tokens, 3, is_coming};
  }
  void observe(spec::LineId, const spec::DraftOutcome& outcome) override { last = outcome; }
  void finish(spec::LineId, std::span<const std::int64_t>) override {}

  Tokens tokens;
  bool is_coming = false;
  spec::DraftRoom last_room;
  spec::DraftOutcome last;
};

TEST(SchedulerTest, DraftsAreTakenAsFarAsTheyAreRightThenCut) {
  FixedDrafts drafts;
  Scheduler scheduler(small(), &drafts);
  ASSERT_TRUE(scheduler.submit(request(1, 3, 20)));
  must_commit(scheduler, must_plan(scheduler), {40});
  drafts.tokens = {41, 42, 43};
  const StepPlan step = must_plan(scheduler);
  EXPECT_EQ(step.sequences[0].tokens,
            (std::vector<TokenInput>{std::int64_t{40}, std::int64_t{41}, std::int64_t{42},
                                     std::int64_t{43}}));
  EXPECT_EQ(step.sequences[0].drafts, 3U);
  EXPECT_EQ(step.sequences[0].sampled_rows.size(), 4U);
  const auto progress = must_commit(scheduler, step, {41, 50, 43, 44});
  ASSERT_EQ(progress.size(), 1U);
  EXPECT_EQ(progress[0].tokens, (Tokens{41, 50}));
  EXPECT_EQ(drafts.last.proposed, 3U);
  EXPECT_EQ(drafts.last.accepted, 1U);
  EXPECT_EQ(drafts.last.match, 3U);
  drafts.tokens.clear();
  const StepPlan next = must_plan(scheduler);
  EXPECT_EQ(next.sequences[0].past_tokens, 5U);
  EXPECT_EQ(next.sequences[0].truncate_to, 5U);
  EXPECT_EQ(next.sequences[0].tokens, (std::vector<TokenInput>{std::int64_t{50}}));
}

TEST(SchedulerTest, ALineWhoseDraftsAreComingIsLeftOutUntilThen) {
  FixedDrafts drafts;
  Scheduler scheduler(small(), &drafts);
  ASSERT_TRUE(scheduler.submit(request(1, 3, 20)));
  must_commit(scheduler, must_plan(scheduler), {40});
  drafts.is_coming = true;
  EXPECT_FALSE(scheduler.plan(TimePoint()));
  EXPECT_FALSE(scheduler.is_idle());
  ASSERT_TRUE(scheduler.submit(request(2, 3, 20)));
  const StepPlan others = must_plan(scheduler);
  ASSERT_EQ(others.sequences.size(), 1U);
  EXPECT_EQ(others.sequences[0].key.request, RequestId(2)) << "nobody else waits";
  must_commit(scheduler, others, {50});
  drafts.is_coming = false;
  drafts.tokens = {41};
  const StepPlan step = must_plan(scheduler);
  ASSERT_EQ(step.sequences.size(), 2U);
  EXPECT_EQ(step.sequences[0].drafts, 1U);
  EXPECT_TRUE(scheduler.check());
}

using Samples = std::vector<RowSample>;

TEST(SchedulerTest, AChainThatChecksDraftsGivesFewerSamples) {
  FixedDrafts drafts;
  SchedulerOptions options = small();
  options.kv_blocks = 32;
  Scheduler scheduler(options, &drafts);
  ASSERT_TRUE(scheduler.submit(request(1, 3, 20)));
  ASSERT_TRUE(scheduler.submit(request(2, 3, 20)));
  must_commit(scheduler, must_plan(scheduler), {40, 70});
  drafts.tokens = {41, 42};
  const StepPlan step = must_plan(scheduler);
  ASSERT_EQ(step.rows(), 6U);
  for (const Samples& wrong : {Samples{{0, 41}, {1, 42}, {2, 43}},  // none of the second
                               Samples{{0, 41}, {3, 50}},           // ends on a right draft
                               Samples{{0, 41}, {2, 43}, {3, 50}},  // a gap
                               Samples{{0, 50}, {3, 50}, {3, 51}},  // twice
                               Samples{{0, 50}, {3, -1}}}) {
    EXPECT_EQ(scheduler.commit(step.id, wrong).error().code(), ErrorCode::kInvalidArgument);
  }
  const auto progress = scheduler.commit(step.id, Samples{{0, 41}, {1, 50}, {3, 60}});
  ASSERT_TRUE(progress) << progress.error().message();
  ASSERT_EQ(progress->size(), 2U);
  EXPECT_EQ(progress->at(0).tokens, (Tokens{41, 50}));
  EXPECT_EQ(progress->at(1).tokens, Tokens{60});
  EXPECT_EQ(progress->at(1).first_sample, 2U);
  ASSERT_TRUE(scheduler.check());
  drafts.tokens.clear();
  const StepPlan next = must_plan(scheduler);
  EXPECT_EQ(next.sequences[0].truncate_to, 5U);
  EXPECT_EQ(next.sequences[1].truncate_to, 4U);
}

TEST(SchedulerTest, FurtherAnswersForkWhereThePromptIsComputed) {
  SchedulerOptions options = small();
  options.kv_blocks = 16;
  Scheduler scheduler(options);
  Request three = request(1, 6);
  three.choices = 3;
  ASSERT_TRUE(scheduler.submit(three));
  const StepPlan prompt = must_plan(scheduler);
  EXPECT_EQ(prompt.sequences.size(), 1U);
  const StepPlan forks = must_plan(scheduler);
  ASSERT_EQ(forks.sequences.size(), 2U);
  EXPECT_EQ(forks.sequences[0].fork_from, prompt.sequences[0].sequence);
  EXPECT_EQ(forks.sequences[0].truncate_to, 5U);
  EXPECT_EQ(forks.sequences[0].tokens, (std::vector<TokenInput>{std::int64_t{105}}));
  EXPECT_EQ(forks.sequences[0].blocks[0], prompt.sequences[0].blocks[0]);
  ASSERT_EQ(forks.copies.size(), 2U);
  EXPECT_EQ(forks.copies[0].from, prompt.sequences[0].blocks[1]);
  EXPECT_EQ(forks.copies[0].to, forks.sequences[0].blocks[1]);
}

TEST(SchedulerTest, WhereKvIsNotSharedEachSequenceBeginsAtZero) {
  SchedulerOptions options = small();
  options.shares_kv = false;
  options.max_running = 1;
  Scheduler scheduler(options);
  Request two = request(1, 9, 1);
  two.choices = 2;
  ASSERT_TRUE(scheduler.submit(two));
  two.id = RequestId(2);  // the same prompt again
  ASSERT_TRUE(scheduler.submit(two));
  std::vector<SequenceId> freed;
  for (std::int64_t answer = 0; answer < 4; ++answer) {
    const StepPlan step = must_plan(scheduler);
    ASSERT_EQ(step.sequences.size(), 1U) << "one after the other";
    EXPECT_EQ(step.sequences[0].past_tokens, 0U);
    EXPECT_EQ(step.sequences[0].tokens.size(), 9U);
    EXPECT_FALSE(step.sequences[0].fork_from);
    EXPECT_TRUE(step.copies.empty());
    EXPECT_EQ(step.freed, freed) << "before the next begins";
    freed = {step.sequences[0].sequence};
    EXPECT_EQ(must_commit(scheduler, step, {answer}).size(), 1U);
  }
  EXPECT_EQ(scheduler.stats().reused_tokens, 0U);
}

TEST(SchedulerTest, AResetBeginsAgainWithTheSameTexts) {
  Scheduler scheduler(small());
  ASSERT_TRUE(scheduler.submit(request(1, 9, 9)));
  must_commit(scheduler, must_plan(scheduler), {60});
  must_plan(scheduler);
  scheduler.reset();
  EXPECT_TRUE(scheduler.check());
  EXPECT_EQ(scheduler.stats().cached_blocks, 0U);
  const StepPlan again = must_plan(scheduler);
  ASSERT_EQ(again.sequences.size(), 1U);
  EXPECT_EQ(again.rows(), 10U) << "prompt and the known token";
  EXPECT_EQ(again.opened[0].history_tokens, 10U);
  EXPECT_TRUE(again.freed.empty());
}

}  // namespace
}  // namespace paceline::sched
