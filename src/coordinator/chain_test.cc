// The pool and the chain against real workers with fake engines, and against peers that misbehave.
#include "coordinator/chain.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "coordinator/answer_waiter.h"
#include "text/test_vocabulary.h"
#include "wire/int8_rows.h"
#include "worker/worker_testing.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;
using worker::fake_answer;
using worker::kFakeBlockTokens;
using worker::kFakeLayers;
using worker::ShiftedClock;

/// A peer that says welcome and, from then on, what the test tells it to.
class StubbornWorker {
 public:
  explicit StubbornWorker(net::Transport& transport) : server_(transport) {
    server_.handler->on_frame_hook = [this](const wire::Frame& frame) {
      if (std::holds_alternative<wire::Hello>(frame.message)) {
        connection_ = server_.accepted();
        wire::Welcome welcome;
        welcome.version = version;
        EXPECT_TRUE(connection_->send({{}, welcome, {}}));
      } else if (std::holds_alternative<wire::AssignStage>(frame.message) && ready) {
        EXPECT_TRUE(connection_->send({frame.address, *ready, {}}));
      } else if (std::holds_alternative<wire::Ping>(frame.message) && on_ping) {
        on_ping(*connection_);
      }
    };
  }
  std::string address() const { return server_.endpoint().to_string(); }

  std::function<void(net::Connection&)> on_ping;  ///< on the network thread
  std::uint16_t version = 1;
  std::optional<wire::StageReady> ready;  ///< the answer to an assignment

 private:
  net::TestServer server_;
  std::shared_ptr<net::Connection> connection_;
};

class ChainTest : public testing::Test {
 protected:
  Result<std::unique_ptr<WorkerPool>> connect(const std::vector<std::string>& addresses) {
    return WorkerPool::connect(workers_.transport(), clock_, addresses, "anna", net::soon());
  }
  Deadline in_an_hour() const { return Deadline::after(std::chrono::hours(1), clock_.now()); }
  static ChainPlan plan(std::vector<wire::RouteEntry> route) {
    ChainPlan plan;
    plan.package_digest = "digest";
    plan.context_tokens = 64;
    plan.kv_blocks = 16;
    plan.logical_block_tokens = kFakeBlockTokens;
    plan.route = std::move(route);
    return plan;
  }
  Result<std::unique_ptr<Chain>> start(const ChainPlan& plan) {
    std::vector<std::string> addresses;
    for (const auto& entry : plan.route) addresses.push_back(entry.address);
    auto pool = connect(addresses);
    if (!pool) return fail(std::move(pool).error());
    return Chain::start(*std::move(pool), plan, clock_);
  }
  template <typename T>
  static void expect_error(const Result<T>& result, ErrorCode code,
                           const std::vector<std::string>& parts) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    for (const auto& part : parts) EXPECT_THAT(result.error().message(), HasSubstr(part));
  }

  ShiftedClock clock_;
  worker::FakeWorkers workers_;
};

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

TEST_F(ChainTest, AStageThatCannotLoadEndsTheStart) {
  const std::string a = workers_.start();
  auto missing = plan({{a, {0, kFakeLayers}}});
  missing.package_digest = "missing";
  expect_error(start(missing), ErrorCode::kNotFound, {"worker " + a, "no such package"});
}

TEST_F(ChainTest, AFailedStepNamesWorkerAndStage) {
  const std::string a = workers_.start();
  const std::string b = workers_.start();
  auto chain = start(plan({{a, {0, 2}}, {b, {2, kFakeLayers}}}));
  ASSERT_TRUE(chain) << chain.error().message();
  wire::Step step;
  step.sequences.emplace_back();
  step.sequences[0].sequence = SequenceId(77);
  const auto id = (*chain)->submit(step);
  ASSERT_TRUE(id);
  expect_error((*chain)->await(*id, in_an_hour()), ErrorCode::kFailedPrecondition,
               {"worker " + a, "stage 0", "sequence 77 was not opened"});
}

TEST_F(ChainTest, EveryAddressIsDialledOnceAndNobodyIsNamed) {
  const std::string a = workers_.start();
  const auto pool = connect({a, a});
  ASSERT_TRUE(pool) << pool.error().message();
  EXPECT_EQ((*pool)->welcomes().size(), 1U);
  EXPECT_EQ((*pool)->welcomes().at(a).name, "w0");
  expect_error(connect({"127.0.0.1:1"}), ErrorCode::kUnavailable,
               {"no connection to a worker: 127.0.0.1:1"});
  expect_error(connect({"nowhere"}), ErrorCode::kInvalidArgument, {"nowhere"});
}

TEST_F(ChainTest, AWorkerThatVanishesIsNamed) {
  StubbornWorker stubborn(workers_.transport());
  stubborn.on_ping = [](net::Connection& connection) {
    connection.close(Error(ErrorCode::kInternal, "killed"));
  };
  const auto pool = connect({workers_.start(), stubborn.address()});
  ASSERT_TRUE(pool) << pool.error().message();
  expect_error((*pool)->await_result(StepId(1), in_an_hour()), ErrorCode::kUnavailable,
               {"worker " + stubborn.address() + " is gone"});
  expect_error((*pool)->await_result(StepId(2), in_an_hour()), ErrorCode::kUnavailable,
               {"is gone"});
}

TEST_F(ChainTest, AWorkerThatIsSilentIsNamed) {
  StubbornWorker stubborn(workers_.transport());
  stubborn.on_ping = [this](net::Connection&) { clock_.shift = std::chrono::seconds(10); };
  const auto pool = connect({stubborn.address()});
  ASSERT_TRUE(pool) << pool.error().message();
  expect_error((*pool)->await_result(StepId(1), in_an_hour()), ErrorCode::kUnavailable,
               {"worker " + stubborn.address() + " has not answered for 1"});
}

TEST_F(ChainTest, TheEndOfAWorkerIsNoticedWhereNobodyWaits) {
  std::atomic<bool> is_to_end = false;
  StubbornWorker stubborn(workers_.transport());
  stubborn.on_ping = [&](net::Connection& connection) {
    if (is_to_end) connection.close(Error(ErrorCode::kInternal, "killed"));
  };
  const std::string a = workers_.start();
  const std::string b = stubborn.address();
  const auto pool = connect({a, b});
  ASSERT_TRUE(pool) << pool.error().message();
  EXPECT_FALSE((*pool)->failure());
  EXPECT_EQ((*pool)->nodes(), (std::map<std::string, bool>{{a, true}, {b, true}}));
  is_to_end = true;
  for (int i = 0; i < 600 && !(*pool)->failure(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE((*pool)->failure());
  EXPECT_THAT((*pool)->failure()->message(), HasSubstr("worker " + b + " is gone"));
  EXPECT_EQ((*pool)->nodes(), (std::map<std::string, bool>{{a, true}, {b, false}}));
}

TEST_F(ChainTest, SilenceIsNoticedWhereNobodyWaits) {
  StubbornWorker stubborn(workers_.transport());
  const std::string a = workers_.start();
  const auto pool = connect({a, stubborn.address()});
  ASSERT_TRUE(pool) << pool.error().message();
  EXPECT_TRUE((*pool)->nodes().at(stubborn.address()));
  for (int i = 0; i < 1000 && !(*pool)->failure(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE((*pool)->failure());
  EXPECT_THAT((*pool)->failure()->message(),
              HasSubstr("worker " + stubborn.address() + " has not answered"));
  EXPECT_TRUE((*pool)->nodes().at(a));
  EXPECT_FALSE((*pool)->nodes().at(stubborn.address()));
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

TEST_F(ChainTest, ABusyWorkerIsNotSilent) {
  std::atomic<bool> go_on = false;
  workers_.prepare = [&](worker::FakeEngine& engine) {
    engine.before_run = [&] { go_on.wait(false); };
  };
  const std::string a = workers_.start();
  StubbornWorker answering(workers_.transport());
  std::atomic<int> pings = 0;
  answering.on_ping = [&](net::Connection& connection) {
    EXPECT_TRUE(connection.send({{}, wire::Pong{}, {}}));
    // Each ping is 3 s after the last one, and both workers have answered by then.
    clock_.shift = clock_.shift.load() + std::chrono::seconds(3);
    if (++pings < 3) return;
    go_on = true;
    go_on.notify_all();
  };
  auto pool = connect({a, answering.address()});
  ASSERT_TRUE(pool) << pool.error().message();
  // The warm-up waits for an engine that computes for "9 s".
  const auto chain = Chain::start(*std::move(pool), plan({{a, {0, kFakeLayers}}}), clock_);
  EXPECT_TRUE(chain) << chain.error().message();
  EXPECT_GE(pings, 3);
}

TEST_F(ChainTest, SamplesOfAnyOtherThanTheLastStageEndTheChain) {
  StubbornWorker stubborn(workers_.transport());
  std::atomic<bool> is_last_known = false;
  stubborn.on_ping = [&is_last_known](net::Connection& connection) {
    if (!is_last_known) return;
    EXPECT_TRUE(connection.send({{{}, {}, {}, StepId(3)}, wire::StepResult(), {}}));
  };
  const auto pool = connect({stubborn.address()});
  ASSERT_TRUE(pool) << pool.error().message();
  (*pool)->expect_results_from("another:1");
  is_last_known = true;
  expect_error(
      (*pool)->await_result(StepId(3), in_an_hour()), ErrorCode::kFailedPrecondition,
      {"worker " + stubborn.address() + ": has samples of step 3, but not the last stage"});
}

TEST_F(ChainTest, OnlyWhatIsMeantIsPassedOn) {
  const wire::Address last{ChainId(1), Epoch(1), StageId(2), StepId(0)};
  wire::Address step = last;
  step.step = StepId(4);
  wire::Address other = step;
  other.stage = StageId(0);
  const wire::LinkStage link{"digest", {0, 1}, {1, 2}, Profile::kFast, "", "", 1, {}};
  const std::vector<std::vector<wire::Frame>> cases = {
      {{step, wire::Step(), {}}},                     // without a link
      {{last, link, {}}, {other, wire::Step(), {}}},  // for another stage
  };
  for (const auto& frames : cases) {
    StubbornWorker stubborn(workers_.transport());
    stubborn.on_ping = [&](net::Connection& connection) {
      for (const wire::Frame& frame : frames) EXPECT_TRUE(connection.send(frame));
    };
    const auto pool = connect({workers_.start(), stubborn.address()});
    ASSERT_TRUE(pool) << pool.error().message();
    const auto& welcomes = (*pool)->welcomes();
    const auto home = welcomes.begin()->first == stubborn.address() ? std::next(welcomes.begin())
                                                                    : welcomes.begin();
    (*pool)->pass_on({stubborn.address(), last, home->first});
    expect_error(
        (*pool)->await_result(StepId(9), in_an_hour()), ErrorCode::kFailedPrecondition,
        {"worker " + stubborn.address() + ": a step for stage", "is not expected from it"});
  }
}

TEST_F(ChainTest, TheDeadlineEndsTheWait) {
  const auto pool = connect({workers_.start()});
  ASSERT_TRUE(pool) << pool.error().message();
  expect_error((*pool)->await_result(StepId(1), Deadline(clock_.now())),
               ErrorCode::kDeadlineExceeded, {"in time"});
}

}  // namespace
}  // namespace paceline::coordinator
