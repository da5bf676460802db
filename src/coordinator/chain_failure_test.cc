// The pool and the chain against what goes wrong: stages that fail, workers that vanish or are
// silent, peers that misbehave.
#include <gmock/gmock.h>

#include <atomic>

#include "coordinator/chain_testing.h"

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;
using worker::kFakeLayers;

using ChainFailureTest = ChainTest;

TEST_F(ChainFailureTest, AStageThatCannotLoadEndsTheStart) {
  const std::string a = workers_.start();
  auto missing = plan({{a, {0, kFakeLayers}}});
  missing.package_digest = "missing";
  expect_error(start(missing), ErrorCode::kNotFound, {"worker " + a, "no such package"});
}

TEST_F(ChainFailureTest, AFailedStepNamesWorkerAndStage) {
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

TEST_F(ChainFailureTest, EveryAddressIsDialledOnceAndNobodyIsNamed) {
  const std::string a = workers_.start();
  const auto pool = connect({a, a});
  ASSERT_TRUE(pool) << pool.error().message();
  EXPECT_EQ((*pool)->welcomes().size(), 1U);
  EXPECT_EQ((*pool)->welcomes().at(a).name, "w0");
  expect_error(connect({"127.0.0.1:1"}), ErrorCode::kUnavailable,
               {"no connection to a worker: 127.0.0.1:1"});
  expect_error(connect({"nowhere"}), ErrorCode::kInvalidArgument, {"nowhere"});
}

TEST_F(ChainFailureTest, AWorkerThatVanishesIsNamed) {
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

TEST_F(ChainFailureTest, AWorkerThatIsSilentIsNamed) {
  StubbornWorker stubborn(workers_.transport());
  stubborn.on_ping = [this](net::Connection&) { clock_.shift = std::chrono::seconds(10); };
  const auto pool = connect({stubborn.address()});
  ASSERT_TRUE(pool) << pool.error().message();
  expect_error((*pool)->await_result(StepId(1), in_an_hour()), ErrorCode::kUnavailable,
               {"worker " + stubborn.address() + " has not answered for 1"});
}

TEST_F(ChainFailureTest, TheEndOfAWorkerIsNoticedWhereNobodyWaits) {
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

TEST_F(ChainFailureTest, SilenceIsNoticedWhereNobodyWaits) {
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

TEST_F(ChainFailureTest, ABusyWorkerIsNotSilent) {
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

TEST_F(ChainFailureTest, SamplesOfAnyOtherThanTheLastStageEndTheChain) {
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

TEST_F(ChainFailureTest, OnlyWhatIsMeantIsPassedOn) {
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

TEST_F(ChainFailureTest, TheDeadlineEndsTheWait) {
  const auto pool = connect({workers_.start()});
  ASSERT_TRUE(pool) << pool.error().message();
  expect_error((*pool)->await_result(StepId(1), Deadline(clock_.now())),
               ErrorCode::kDeadlineExceeded, {"in time"});
}

}  // namespace
}  // namespace paceline::coordinator
