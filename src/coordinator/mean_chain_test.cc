// Means of prompts through real workers with an engine of integers: the same alone, among answers,
// in chunks, over several stages, and begun again after a preemption.
#include <gmock/gmock.h>

#include <atomic>
#include <random>

#include "coordinator/answer_waiter.h"
#include "coordinator/chain_testing.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using worker::fake_answer;
using worker::fake_mean;
using worker::kFakeBlockTokens;
using worker::kFakeLayers;

class MeanChainTest : public ChainTest {
 protected:
  static BatchOptions options(const Chain& chain, std::uint32_t blocks) {
    BatchOptions options;
    options.vocabulary_size = worker::kFakeVocabulary;
    options.scheduler.context_tokens = 96;
    options.scheduler.kv_blocks = blocks;
    options.scheduler.block_tokens = kFakeBlockTokens;
    options.scheduler.max_sums = 3;
    options.pipeline.least_step_tokens = 7;
    options.pipeline.most_step_tokens = 7;
    options.speculation = Speculation::kAlways;
    chain.limit(options.scheduler);
    options.mean_width = chain.mean_width();
    options.why_no_means = chain.why_no_means();
    return options;
  }

  /// Prompts that begin alike, for some their means, for the others an answer.
  static std::vector<GenerationRequest> random_requests(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto up_to = [&random](std::uint32_t most) {
      return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
    };
    std::vector<GenerationRequest> all(20);
    for (GenerationRequest& request : all) {
      request.prompt.resize(1 + up_to(up_to(3) == 0 ? 60 : 12));
      for (std::size_t i = 0; i < request.prompt.size(); ++i) {
        request.prompt[i] = up_to(9) == 0 ? up_to(90) : static_cast<std::int64_t>(i * 7 % 90);
      }
      request.want_mean = up_to(1) == 0;
      request.max_tokens = 1 + up_to(20);
      request.ignore_eos = true;
      request.priority = static_cast<std::int32_t>(up_to(1));
    }
    return all;
  }

  static void expect_right(const GenerationRequest& asked, const Generation& given) {
    if (!asked.want_mean) {
      EXPECT_THAT(given.mean, IsEmpty());
      EXPECT_EQ(given.tokens, fake_answer(asked.prompt, kFakeLayers, asked.max_tokens));
      return;
    }
    EXPECT_EQ(given.mean, fake_mean(asked.prompt, kFakeLayers));
    EXPECT_THAT(given.tokens, IsEmpty());
    EXPECT_EQ(given.text, "");
    EXPECT_EQ(given.finish_reason, FinishReason::kStop);
    EXPECT_EQ(given.prompt_tokens, asked.prompt.size());
    EXPECT_EQ(given.reused_tokens, 0U) << "rows that are not computed cannot be summed";
  }
};

TEST_F(MeanChainTest, AMeanIsThatOfThePromptAloneWhateverIsBesideIt) {
  std::uint64_t preemptions = 0;
  std::uint64_t reused = 0;
  for (const std::uint32_t stages : {1U, 2U, 3U}) {
    const auto chain = start_over(stages);
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << stages << " stages, seed " << seed);
      // Room for two or three of the longer ones.
      BatchGenerator generator(*chain, stages, nullptr, clock_, options(*chain, 30));
      const auto requests = random_requests(seed);
      std::vector<std::pair<sched::RequestId, std::shared_ptr<AnswerWaiter>>> asked;
      for (const GenerationRequest& request : requests) {
        asked.emplace_back(sched::RequestId(0), std::make_shared<AnswerWaiter>(1, nullptr));
        const auto id = generator.submit(request, asked.back().second);
        ASSERT_TRUE(id) << id.error().message();
        asked.back().first = *id;
      }
      const std::atomic<bool> cancelled = false;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto given = wait_for_answers(generator, asked[i].first, *asked[i].second, cancelled);
        ASSERT_TRUE(given) << given.error().message();
        SCOPED_TRACE(testing::Message() << "request " << i);
        expect_right(requests[i], given->at(0));
      }
      const auto stats = generator.stats().scheduler;
      preemptions += stats.preemptions;
      reused += stats.reused_tokens;
    }
  }
  EXPECT_GT(preemptions, 0U);
  EXPECT_GT(reused, 0U) << "answers still begin in what is cached";
}

TEST_F(MeanChainTest, ACancelledOneIsForgottenByTheStage) {
  const auto chain = start_over(2);
  BatchGenerator generator(*chain, 2, nullptr, clock_, options(*chain, 30));
  GenerationRequest request;
  request.prompt.assign(90, 5);
  request.want_mean = true;
  auto waiter = std::make_shared<AnswerWaiter>(1, nullptr);
  const auto id = generator.submit(request, waiter);
  ASSERT_TRUE(id);
  generator.cancel(*id);
  const std::atomic<bool> cancelled = false;
  const auto ended = wait_for_answers(generator, *id, *waiter, cancelled);
  ASSERT_TRUE(ended) << ended.error().message();
  request.prompt = {4, 5, 6};
  const auto next = generate(generator, request, nullptr, cancelled);
  ASSERT_TRUE(next) << next.error().message();
  expect_right(request, *next);
}

TEST_F(MeanChainTest, AStageWithoutMeansIsNamedAndAnswersAllElse) {
  workers_.prepare = [](worker::FakeEngine& engine) { engine.give_no_final_rows(); };
  const auto chain = start_over(2);
  const std::string& last = chain->plan().route.back().address;
  EXPECT_THAT(chain->why_no_means(),
              HasSubstr("worker " + last + " has the last stage and gives no means"));
  BatchGenerator generator(*chain, 2, nullptr, clock_, options(*chain, 30));
  GenerationRequest request;
  request.prompt = {4, 5, 6};
  request.want_mean = true;
  const std::atomic<bool> cancelled = false;
  const auto refused = generate(generator, request, nullptr, cancelled);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr(last));
  request.want_mean = false;
  request.max_tokens = 3;
  const auto answer = generate(generator, request, nullptr, cancelled);
  ASSERT_TRUE(answer) << answer.error().message();
  expect_right(request, *answer);
}

TEST_F(MeanChainTest, AStepHasNoMoreMeansThanItsResultHolds) {
  const auto chain = start_over(1);
  EXPECT_EQ(chain->mean_width(), 2U);
  EXPECT_EQ(chain->why_no_means(), "");
  sched::SchedulerOptions options;
  options.max_sums = 1U << 30;
  chain->limit(options);
  EXPECT_EQ(options.max_sums, 1U << 19) << "of two values each";
}

}  // namespace
}  // namespace paceline::coordinator
