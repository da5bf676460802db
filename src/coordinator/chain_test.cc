// The pool and the chain against real workers with fake engines.
#include "coordinator/chain.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "coordinator/answer_waiter.h"
#include "coordinator/chain_testing.h"
#include "text/test_vocabulary.h"
#include "wire/int8_rows.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;
using worker::fake_answer;
using worker::kFakeBlockTokens;
using worker::kFakeLayers;

TEST_F(ChainTest, TextComesOutOfAChainAsOutOfTheWholeModel) {
  const std::string a = workers_.start();
  const std::string b = workers_.start();
  auto chain = start(plan({{a, {0, 2}}, {b, {2, 3}}, {a, {3, kFakeLayers}}}));
  ASSERT_TRUE(chain) << chain.error().message();
  ASSERT_EQ((*chain)->stages().size(), 3U);
  EXPECT_EQ((*chain)->stages()[1].worker_name, "w1");
  EXPECT_EQ((*chain)->stages()[2].ready.weight_bytes, 3000U);
  EXPECT_EQ((*chain)->status()->size(), 2U);
  const auto workers = (*chain)->workers();
  ASSERT_EQ(workers.size(), 2U);
  EXPECT_EQ(workers.at(b).welcome.name, "w1");
  ASSERT_TRUE(workers.at(b).pong) << "status() has waited for it";
  EXPECT_GT(workers.at(b).round_trip, Duration::zero());
  const text::Tokenizer tokenizer = text::test_tokenizer("bpe");
  BatchOptions options;
  options.scheduler.context_tokens = 64;
  options.scheduler.kv_blocks = 16;
  options.scheduler.block_tokens = kFakeBlockTokens;
  options.pipeline.least_step_tokens = 3;
  options.pipeline.most_step_tokens = 3;
  BatchGenerator generator(**chain, 3, &tokenizer, clock_, options);
  const std::atomic<bool> cancelled = false;
  GenerationRequest request;
  request.prompt = {5, 6, 7, 8, 9, 10, 11};
  request.max_tokens = 12;
  request.ignore_eos = true;
  const auto first = generate(generator, request, nullptr, cancelled);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->tokens, fake_answer(request.prompt, kFakeLayers, 12));
  // A second request shares a block and a token; its KV is the same as if they were computed anew.
  request.prompt = {5, 6, 7, 8, 9, 50, 51};
  const auto second = generate(generator, request, nullptr, cancelled);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(second->reused_tokens, kFakeBlockTokens) << "whole blocks";
  EXPECT_EQ(second->tokens, fake_answer(request.prompt, kFakeLayers, 12));
}

TEST_F(ChainTest, AnEngineOfOneSequenceIsGivenOneAfterTheOther) {
  const std::string a = workers_.start();
  const std::string b = workers_.start();
  ChainPlan stateful = plan({{a, {0, 2}}, {b, {2, kFakeLayers}}});
  stateful.engine = EngineKind::kStateful;
  auto chain = start(stateful);
  ASSERT_TRUE(chain) << chain.error().message();
  BatchOptions options;
  options.scheduler.context_tokens = 64;
  options.scheduler.kv_blocks = 16;
  options.scheduler.block_tokens = kFakeBlockTokens;
  options.speculation = Speculation::kAlways;
  (*chain)->limit(options.scheduler);
  EXPECT_EQ(options.scheduler.max_running, 1U);
  EXPECT_FALSE(options.scheduler.shares_kv);
  BatchGenerator generator(**chain, 2, nullptr, clock_, options);
  const std::atomic<bool> cancelled = false;
  GenerationRequest request;
  request.prompt = {5, 6, 7, 5, 6, 7, 5, 6, 7};
  request.max_tokens = 20;
  request.ignore_eos = true;
  request.choices = 3;
  const auto expected = fake_answer(request.prompt, kFakeLayers, 20);
  // Two requests at once, of three answers each, with guesses: all the same as alone.
  auto first = std::make_shared<AnswerWaiter>(3, nullptr);
  auto second = std::make_shared<AnswerWaiter>(3, nullptr);
  const auto one = generator.submit(request, first);
  const auto two = generator.submit(request, second);
  ASSERT_TRUE(one && two);
  for (const auto& [id, waiter] : {std::pair{*one, first}, {*two, second}}) {
    const auto answers = wait_for_answers(generator, id, *waiter, cancelled);
    ASSERT_TRUE(answers) << answers.error().message();
    ASSERT_EQ(answers->size(), 3U);
    for (const Generation& answer : *answers) {
      EXPECT_EQ(answer.tokens, expected);
      EXPECT_EQ(answer.reused_tokens, 0U);
    }
  }
}

TEST_F(ChainTest, ThePagedEngineSetsNoLimits) {
  const std::string a = workers_.start();
  const auto chain = start(plan({{a, {0, kFakeLayers}}}));
  ASSERT_TRUE(chain) << chain.error().message();
  sched::SchedulerOptions options;
  (*chain)->limit(options);
  EXPECT_EQ(options.max_running, sched::SchedulerOptions().max_running);
  EXPECT_TRUE(options.shares_kv);
}

TEST_F(ChainTest, WhoMasksTokensIsTheLastStagesWorker) {
  const auto tokenizer = std::filesystem::path(testing::TempDir()) / "chain_test_tokenizer.json";
  std::ofstream(tokenizer) << "{}";
  workers_.prepare = [&](worker::FakeEngine& engine) { engine.set_tokenizer(tokenizer); };
  const std::string a = workers_.start();
  const auto masking = start(plan({{a, {0, kFakeLayers}}}));
  ASSERT_TRUE(masking) << masking.error().message();
  EXPECT_EQ((*masking)->why_no_grammars(), "");
}

TEST_F(ChainTest, AWorkerThatDoesNotMaskTokensIsNamed) {
  const std::string a = workers_.start();
  const std::string b = workers_.start();
  const auto chain = start(plan({{a, {0, 2}}, {b, {2, kFakeLayers}}}));
  ASSERT_TRUE(chain) << chain.error().message();
  const std::string why = (*chain)->why_no_grammars();
  EXPECT_THAT(why, HasSubstr("worker " + b + " has the last stage and masks no tokens"));
  BatchOptions options;
  options.end_tokens = {1};
  options.scheduler.context_tokens = 64;
  options.scheduler.kv_blocks = 16;
  options.scheduler.block_tokens = kFakeBlockTokens;
  options.why_no_grammars = why;
  BatchGenerator generator(**chain, 2, nullptr, clock_, options);
  GenerationRequest request;
  request.prompt = {5};
  request.sampling.grammar.emplace();
  expect_error(generator.submit(request, nullptr), ErrorCode::kInvalidArgument,
               {"grammar: worker " + b});
}

TEST_F(ChainTest, AWorkerThatDoesNotKnowTheEngineIsNamed) {
  workers_.knows_engines = false;
  const std::string a = workers_.start();
  ChainPlan stateful = plan({{a, {0, kFakeLayers}}});
  stateful.engine = EngineKind::kStateful;
  expect_error(
      start(stateful), ErrorCode::kUnimplemented,
      {"worker " + a, "asked for the stateful engine and loaded the paged one: update it"});
}

TEST_F(ChainTest, AWorkerThatDoesNotKnowInt8LinksIsNamed) {
  StubbornWorker older(workers_.transport());
  older.ready.emplace();
  const std::string a = workers_.start();
  ChainPlan coded = plan({{a, {0, 2}}, {older.address(), {2, kFakeLayers}}});
  coded.link_precision = LinkPrecision::kInt8;
  expect_error(
      start(coded), ErrorCode::kUnimplemented,
      {"worker " + older.address(), "asked for int8 links and has native ones: update it"});
}

TEST_F(ChainTest, AllStagesOfAChainHaveInt8Links) {
  const std::string a = workers_.start();
  const std::string b = workers_.start();
  ChainPlan coded = plan({{a, {0, 2}}, {b, {2, kFakeLayers}}});
  coded.link_precision = LinkPrecision::kInt8;
  const auto chain = start(coded);
  ASSERT_TRUE(chain) << chain.error().message();
  for (const StageReport& stage : (*chain)->stages()) {
    EXPECT_EQ(stage.ready.link_precision, LinkPrecision::kInt8);
  }
}

TEST_F(ChainTest, TheEndOfAChainFreesItsWorkers) {
  const std::string a = workers_.start();
  const ChainPlan whole = plan({{a, {0, kFakeLayers}}});
  {
    const auto chain = start(whole);
    ASSERT_TRUE(chain) << chain.error().message();
    EXPECT_EQ(workers_.engines_alive, 1);
    expect_error(start(whole), ErrorCode::kAlreadyExists,
                 {"worker " + a, "this worker serves anna already"});
  }
  const auto next = start(whole);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(workers_.engines_alive, 1);
}

TEST_F(ChainTest, BytesOfAHopAreThoseOfItsRows) {
  const std::string a = workers_.start();
  const std::string b = workers_.start();
  ChainPlan native = plan({{a, {0, 2}}, {b, {2, kFakeLayers}}});
  std::uint64_t values = 0;
  {
    const auto chain = start(native);
    ASSERT_TRUE(chain) << chain.error().message();
    ASSERT_EQ((*chain)->hop_row_bytes().size(), 1U);
    const auto& boundary = (*chain)->stages()[0].ready.output_boundary;
    ASSERT_EQ(boundary.size(), 1U);
    values = boundary[0].row_shape.at(0);
    EXPECT_EQ((*chain)->hop_row_bytes()[0], values * size_bytes(boundary[0].type));
  }
  native.link_precision = LinkPrecision::kInt8;
  const auto coded = start(native);
  ASSERT_TRUE(coded) << coded.error().message();
  EXPECT_EQ((*coded)->hop_row_bytes()[0], wire::int8_row_bytes(values));
}

}  // namespace
}  // namespace paceline::coordinator
