// A worker as its peers see it: connections in, frames out.
#include "worker/worker.h"

#include <gmock/gmock.h>

#include <future>
#include <latch>

#include "worker/worker_fixture_testing.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

TEST_F(WorkerTest, AHelloIsAnsweredByAWelcome) {
  Peer peer = workers_.dial(worker_);
  ASSERT_TRUE(peer.send({}, FakeWorkers::hello("anna")));
  const auto welcome = peer.receive<wire::Welcome>();
  EXPECT_EQ(welcome.version, 1);
  EXPECT_EQ(welcome.name, "w0");
  EXPECT_EQ(welcome.isa, "test");
  EXPECT_EQ(welcome.openvino_version, "2026.4.1");
  EXPECT_GT(welcome.available_bytes, 0U);
  EXPECT_GE(welcome.total_bytes, welcome.available_bytes);
}

TEST_F(WorkerTest, OtherVersionsLearnWhichSideToUpdate) {
  Peer newer = workers_.dial(worker_);
  auto hello = FakeWorkers::hello("anna");
  hello.versions = {4, 5};
  ASSERT_TRUE(newer.send({}, hello));
  expect_closed(newer, ErrorCode::kFailedPrecondition, "update this side");
  Peer older = workers_.dial(worker_);
  hello.versions = {0, 0};
  ASSERT_TRUE(older.send({}, hello));
  expect_closed(older, ErrorCode::kFailedPrecondition, "update the peer");
  expect_alive();
}

TEST(WorkerWithoutHandshakeTest, TheFirstFrameMustBeAHello) {
  net::LoopbackOptions options;
  options.first_frame = wire::FirstFrame::kAny;
  FakeWorkers workers(options);
  Peer peer = workers.dial(workers.start());
  ASSERT_TRUE(peer.send({}, wire::Ping{1, 0}));
  EXPECT_THAT(peer.receive<wire::Fault>().message, HasSubstr("the first frame must be a hello"));
  EXPECT_TRUE(peer.handler->wait_for_close());
}

TEST_F(WorkerTest, ARoleSaysWhatAPeerMaySend) {
  Peer coordinator = workers_.greet(worker_, "anna");
  ASSERT_TRUE(coordinator.send(address(0), wire::StageReady()));
  expect_closed(coordinator, ErrorCode::kFailedPrecondition, "not expected on this connection");
  Peer stage = workers_.greet(worker_, "w1", wire::Role::kUpstreamStage);
  ASSERT_TRUE(stage.send(address(0), assignment(whole(), 0)));
  expect_closed(stage, ErrorCode::kFailedPrecondition, "not expected on this connection");
  Peer twice = workers_.greet(worker_, "anna");
  ASSERT_TRUE(twice.send({}, FakeWorkers::hello("anna")));
  expect_closed(twice, ErrorCode::kFailedPrecondition, "not expected on this connection");
  expect_alive();
}

TEST_F(WorkerTest, AnAssignmentIsLoadedAndTold) {
  Peer peer = workers_.greet(worker_, "anna");
  const std::vector<wire::RouteEntry> route = {{worker_, {0, 2}}, {"127.0.0.1:1", {2, 6}}};
  ASSERT_TRUE(peer.send(address(0), assignment(route, 0)));
  const auto ready = peer.receive<wire::StageReady>();
  EXPECT_EQ(ready.layers, (LayerRange{0, 2}));
  EXPECT_TRUE(ready.is_first);
  EXPECT_FALSE(ready.is_last);
  EXPECT_EQ(ready.weight_bytes, 2000U);
  EXPECT_EQ(ready.kv_bytes, 20U);
  EXPECT_GT(ready.resident_bytes, 0U);
  ASSERT_EQ(ready.output_boundary.size(), 1U);
  EXPECT_EQ(ready.output_boundary[0].name, "hidden");
  ASSERT_TRUE(peer.send(address(0), assignment(route, 0)));
  EXPECT_EQ(peer.receive<wire::Fault>().code, ErrorCode::kAlreadyExists);
}

TEST_F(WorkerTest, AStageTellsTheLinksThatItHas) {
  Peer peer = workers_.greet(worker_, "anna");
  const std::vector<wire::RouteEntry> route = {{worker_, {0, 2}}, {"127.0.0.1:1", {2, 6}}};
  wire::AssignStage message = assignment(route, 0);
  message.link_precision = LinkPrecision::kInt8;
  message.profile = Profile::kExact;
  ASSERT_TRUE(peer.send(address(0), message));
  const auto refused = peer.receive<wire::Fault>();
  EXPECT_EQ(refused.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.message, "link_precision: profile exact has native links only");
  message.profile = Profile::kFast;
  Peer next = workers_.greet(workers_.start(), "anna");
  ASSERT_TRUE(next.send(address(0), message));
  EXPECT_EQ(next.receive<wire::StageReady>().link_precision, LinkPrecision::kInt8);
}

TEST_F(WorkerTest, AStageTellsItsEngineAndWhatThatCannotDo) {
  for (const EngineKind engine : {EngineKind::kPaged, EngineKind::kStateful}) {
    Peer peer = workers_.greet(worker_, "anna");
    wire::AssignStage assign = assignment(whole(), 0);
    assign.engine = engine;
    ASSERT_TRUE(peer.send(address(0), assign));
    const auto ready = peer.receive<wire::StageReady>();
    EXPECT_EQ(ready.engine, engine);
    EXPECT_EQ(ready.max_sequences, engine == EngineKind::kStateful ? 1U : 0U);
    EXPECT_EQ(ready.keeps_kv_apart, engine == EngineKind::kStateful);
    ASSERT_TRUE(peer.send(address(0, 1), step_of(0, {5})));
    EXPECT_EQ(peer.receive<wire::StepResult>().outcome, wire::Outcome::kDone);
    wire::Step second = step_of(0, {6});
    second.opened[0].sequence = second.sequences[0].sequence = SequenceId(2);
    ASSERT_TRUE(peer.send(address(0, 2), second));
    EXPECT_EQ(peer.receive<wire::StepResult>().outcome,
              engine == EngineKind::kStateful ? wire::Outcome::kFailed : wire::Outcome::kDone);
    worker_ = workers_.start();  // the other one is anna's
  }
}

TEST_F(WorkerTest, AStageThatCannotBeLoadedIsAFault) {
  Peer peer = workers_.greet(worker_, "anna");
  auto missing = assignment(whole(), 0);
  missing.package_digest = "missing";
  ASSERT_TRUE(peer.send(address(0), missing));
  const auto fault = peer.receive<wire::Fault>();
  EXPECT_EQ(fault.code, ErrorCode::kNotFound);
  EXPECT_EQ(fault.regarding, wire::Kind::kAssignStage);
  EXPECT_THAT(fault.message, HasSubstr("no such package"));
  ASSERT_TRUE(peer.send(address(0, 1), step_of(0, {5})));
  const auto result = peer.receive<wire::StepResult>();
  EXPECT_EQ(result.outcome, wire::Outcome::kFailed);
  EXPECT_THAT(result.error_message, HasSubstr("not loaded"));
}

TEST_F(WorkerTest, AFailedStepIsToldAndTheChainGoesOn) {
  Peer peer = owner();
  ASSERT_TRUE(peer.send(address(0, 1), step_of(0, {5})));
  peer.receive<wire::StepResult>();
  ASSERT_TRUE(peer.send(address(0, 2), step_of(9, {5})));
  const auto failed = peer.receive<wire::StepResult>();
  EXPECT_EQ(failed.outcome, wire::Outcome::kFailed);
  EXPECT_EQ(failed.error_code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(failed.error_message, HasSubstr("this stage holds 1"));
  ASSERT_TRUE(peer.send(address(0, 3), step_of(1, {6})));
  EXPECT_EQ(peer.receive<wire::StepResult>().samples.at(0).token,
            fake_answer({5, 6}, kFakeLayers, 1)[0]);
}

TEST_F(WorkerTest, ASecondCoordinatorIsRefusedWithTheNameOfTheFirst) {
  Peer early = workers_.greet(worker_, "early");
  Peer first = owner("anna");
  Peer second = workers_.dial(worker_);
  ASSERT_TRUE(second.send({}, FakeWorkers::hello("ben")));
  expect_closed(second, ErrorCode::kAlreadyExists, "this worker serves anna already");
  ASSERT_TRUE(early.send(address(0), assignment(whole(), 0)));
  const auto fault = early.receive<wire::Fault>();
  EXPECT_EQ(fault.code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(fault.message, HasSubstr("anna"));
  ASSERT_TRUE(early.send({}, wire::ReleaseChain()));  // frees nothing of another's
  ASSERT_TRUE(early.send(address(0, 1), step_of(0, {5})));
  expect_closed(early, ErrorCode::kAlreadyExists, "anna");
  ASSERT_TRUE(first.send(address(0, 1), step_of(0, {5})));
  EXPECT_EQ(first.receive<wire::StepResult>().outcome, wire::Outcome::kDone);
}

TEST_F(WorkerTest, TheNextIsServedOnceTheFirstIsGone) {
  Peer first = owner("anna");
  EXPECT_EQ(workers_.engines_alive, 1);
  first.close();
  first.handler->wait_for_close();
  Peer second = owner("ben");
  EXPECT_EQ(workers_.engines_alive, 1) << "the first one's engine is freed";
  ASSERT_TRUE(second.send({}, wire::ReleaseChain()));
  Peer third = owner("carla");
  EXPECT_EQ(workers_.engines_alive, 1);
}

TEST_F(WorkerTest, AnAbandonedLoadIsNotWaitedForByItsCoordinatorAndFreed) {
  std::latch loading{1};
  std::latch go_on{1};
  std::atomic<bool> is_first = true;
  workers_.before_load = [&] {
    if (!is_first.exchange(false)) return;
    loading.count_down();
    go_on.wait();
  };
  Peer first = workers_.greet(worker_, "anna");
  ASSERT_TRUE(first.send(address(0), assignment(whole(), 0)));
  loading.wait();
  first.close();
  first.handler->wait_for_close();
  Peer second = workers_.greet(worker_, "ben");
  ASSERT_TRUE(second.send(address(0), assignment(whole(), 0)));
  ASSERT_TRUE(second.send({}, wire::Ping{1, 0}));
  EXPECT_EQ(second.receive<wire::Pong>().queued_steps, 2U) << "freeing, then the second load";
  go_on.count_down();
  second.receive<wire::StageReady>();
  EXPECT_EQ(workers_.engines_alive, 1);
}

TEST_F(WorkerTest, LateAndStrayStepsEndTheConnectionAndTheWorkerLives) {
  struct Case {
    wire::Address address;
    ErrorCode code;
    const char* message;
  };
  const wire::Address other_chain = {ChainId(8), Epoch(2), StageId(0), StepId(2)};
  const Case cases[] = {
      {address(0, 2, 1), ErrorCode::kAborted, "epoch: 1 is over, now is 2"},
      {address(0, 2, 3), ErrorCode::kFailedPrecondition, "epoch: 3, but"},
      {address(0, 1, 2), ErrorCode::kAborted, "step: 1, expected one after 1"},
      {other_chain, ErrorCode::kFailedPrecondition, "chain: 8, but"},
  };
  for (const Case& bad : cases) {
    Peer peer = workers_.greet(worker_, "anna");
    ASSERT_TRUE(peer.send(address(0, 0, 2), assignment(whole(), 0)));
    peer.receive<wire::StageReady>();
    ASSERT_TRUE(peer.send(address(0, 1, 2), step_of(0, {5})));
    peer.receive<wire::StepResult>();
    ASSERT_TRUE(peer.send(bad.address, step_of(1, {6})));
    expect_closed(peer, bad.code, bad.message);
  }
  Peer peer = owner();
  ASSERT_TRUE(peer.send({kChain, Epoch(1), StageId(3), StepId(1)}, wire::Step()));
  expect_closed(peer, ErrorCode::kFailedPrecondition, "stage 3, which is not assigned here");
  expect_alive();
}

TEST_F(WorkerTest, ANewEpochReplacesTheStagesOfTheOld) {
  Peer peer = owner();
  ASSERT_TRUE(peer.send(address(0, 0, 2), assignment(whole(), 0)));
  peer.receive<wire::StageReady>();
  EXPECT_EQ(workers_.engines_alive, 1);
  ASSERT_TRUE(peer.send(address(0, 1, 2), step_of(0, {5})));
  EXPECT_EQ(peer.receive<wire::StepResult>().outcome, wire::Outcome::kDone);
  ASSERT_TRUE(peer.send(address(0, 0, 1), assignment(whole(), 0)));
  const auto fault = peer.receive<wire::Fault>();
  EXPECT_EQ(fault.code, ErrorCode::kAborted);
  EXPECT_THAT(fault.message, HasSubstr("epoch 1 is over"));
}

TEST_F(WorkerTest, PingsAreAnsweredWhileTheEngineIsBusy) {
  std::latch computing{1};
  std::latch go_on{1};
  workers_.prepare = [&](FakeEngine& engine) {
    engine.before_run = [&] {
      computing.count_down();
      go_on.wait();
    };
  };
  Peer peer = owner();
  ASSERT_TRUE(peer.send(address(0, 1), step_of(0, {5})));
  computing.wait();
  ASSERT_TRUE(peer.send(address(0, 2), step_of(1, {6})));
  for (std::uint64_t nonce = 1; nonce <= 3; ++nonce) {
    ASSERT_TRUE(peer.send({}, wire::Ping{nonce, 0}));
    const auto pong = peer.receive<wire::Pong>();
    EXPECT_EQ(pong.nonce, nonce);
    EXPECT_EQ(pong.queued_steps, 1U);
    EXPECT_GT(pong.resident_bytes, 0U);
  }
  go_on.count_down();
  peer.receive<wire::StepResult>();
  peer.receive<wire::StepResult>();
}

TEST_F(WorkerTest, EndingWaitsForTheStepAndRefusesTheRest) {
  std::latch computing{1};
  std::latch go_on{1};
  workers_.prepare = [&](FakeEngine& engine) {
    engine.before_run = [&] {
      computing.count_down();
      go_on.wait();
    };
  };
  Peer peer = owner();
  ASSERT_TRUE(peer.send(address(0, 1), step_of(0, {5})));
  computing.wait();
  auto ending = std::async(std::launch::async, [&] { workers_.stop(0); });
  // Its network thread still answers.
  ASSERT_TRUE(peer.send({}, wire::Ping{1, 0}));
  peer.receive<wire::Pong>();
  go_on.count_down();
  ending.wait();
  EXPECT_EQ(workers_.engines_alive, 0);
  peer.receive<wire::StepResult>();
  ASSERT_TRUE(peer.send(address(0, 2), step_of(1, {6})));
  expect_closed(peer, ErrorCode::kFailedPrecondition, "not assigned here");
}

TEST(WorkerListenTest, BeyondLoopbackOnlyWithInsecure) {
  net::NetworkThread thread;
  net::LoopbackTransport transport(thread);
  const PackageStore store;
  const SteadyClock clock;
  WorkerOptions options;
  options.endpoint = {"192.168.0.7", 7400};
  const auto refused = Worker::start(transport, store, {}, clock, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().message(), HasSubstr("192.168.0.7:7400"));
  EXPECT_THAT(refused.error().message(), HasSubstr("--insecure"));
  options.insecure = true;
  const auto allowed = Worker::start(transport, store, {}, clock, options);
  EXPECT_TRUE(allowed);
  EXPECT_FALSE(Worker::start(transport, store, {}, clock, options)) << "the port is taken";
}

}  // namespace
}  // namespace paceline::worker
