// A worker as its peers see it: connections in, frames out.
#include "worker/worker.h"

#include <gmock/gmock.h>

#include <future>
#include <latch>

#include "worker/worker_testing.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

constexpr ChainId kChain{7};

wire::Address address(std::uint32_t stage, std::uint64_t step = 0, std::uint32_t epoch = 1) {
  return {kChain, Epoch(epoch), StageId(stage), StepId(step)};
}

wire::AssignStage assignment(const std::vector<wire::RouteEntry>& route, std::size_t stage) {
  wire::AssignStage assign;
  assign.package_digest = "digest";
  assign.layers = route[stage].layers;
  assign.profile = Profile::kExact;
  assign.context_tokens = 64;
  assign.kv_blocks = 16;
  assign.logical_block_tokens = kFakeBlockTokens;
  assign.route = route;
  return assign;
}

/// `tokens` of sequence 1 from position `past`; opened with them where past is 0.
wire::Step step_of(std::uint32_t past, const std::vector<std::int64_t>& tokens) {
  wire::Step step;
  if (past == 0) {
    step.opened.emplace_back();
    step.opened[0].sequence = SequenceId(1);
  }
  wire::StepSequence rows;
  rows.sequence = SequenceId(1);
  rows.past_tokens = past;
  rows.new_tokens = static_cast<std::uint32_t>(tokens.size());
  rows.tokens.assign(tokens.begin(), tokens.end());
  rows.sampled_rows = {rows.new_tokens - 1};
  rows.blocks.emplace_back();
  for (std::uint32_t block = 0; block < 16; ++block) rows.blocks[0].emplace_back(block);
  step.sequences = {rows};
  return step;
}

/// One worker that may hold the whole fake model.
class WorkerTest : public testing::Test {
 protected:
  std::vector<wire::RouteEntry> whole() const { return {{worker_, {0, kFakeLayers}}}; }

  /// A coordinator that owns the worker's whole model.
  Peer owner(const std::string& name = "anna") {
    Peer peer = workers_.greet(worker_, name);
    EXPECT_TRUE(peer.send(address(0), assignment(whole(), 0)));
    peer.receive<wire::StageReady>();
    return peer;
  }
  static void expect_closed(Peer& peer, ErrorCode code, const char* message) {
    const auto fault = peer.receive<wire::Fault>();
    EXPECT_EQ(fault.code, code) << fault.message;
    EXPECT_THAT(fault.message, HasSubstr(message));
    EXPECT_TRUE(peer.handler->wait_for_close()) << message;
  }
  /// The worker answers a new coordinator.
  void expect_alive() {
    Peer next = owner("next");
    ASSERT_TRUE(next.send(address(0, 1), step_of(0, {5})));
    EXPECT_EQ(next.receive<wire::StepResult>().samples.at(0).token,
              fake_answer({5}, kFakeLayers, 1)[0]);
    next.close();
    next.handler->wait_for_close();
  }

  FakeWorkers workers_;
  std::string worker_ = workers_.start();
};

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

/// Several stages of the fake model; w0 and w1 are there from the start.
class WorkerChainTest : public WorkerTest {
 protected:
  /// Greets each worker once and assigns all stages.
  void assign(const std::vector<wire::RouteEntry>& route) {
    for (std::size_t stage = 0; stage < route.size(); ++stage) {
      auto [peer, is_new] = peers_.try_emplace(route[stage].address);
      if (is_new) peer->second = workers_.greet(route[stage].address, "anna");
      const auto number = static_cast<std::uint32_t>(stage);
      wire::AssignStage message = assignment(route, stage);
      message.link_precision = stage == 0 ? first_links_ : links_;
      message.profile = profile_;
      ASSERT_TRUE(peer->second.send(address(number), std::move(message)));
      peer->second.receive<wire::StageReady>();
    }
    first_ = &peers_.at(route.front().address);
    last_ = &peers_.at(route.back().address);
  }
  std::vector<std::int64_t> answer(std::vector<std::int64_t> tokens, std::size_t count) {
    std::vector<std::int64_t> result;
    std::uint32_t past = 0;
    for (std::uint64_t step = 1; step <= count; ++step) {
      EXPECT_TRUE(first_->send(address(0, step), step_of(past, tokens)));
      past += static_cast<std::uint32_t>(tokens.size());
      const auto stepped = last_->receive<wire::StepResult>();
      EXPECT_EQ(stepped.outcome, wire::Outcome::kDone) << stepped.error_message;
      if (stepped.samples.empty()) return result;
      EXPECT_EQ(stepped.stage_times.size(), stages_);
      tokens = {stepped.samples[0].token};
      result.push_back(tokens[0]);
    }
    return result;
  }

  std::size_t stages_ = 2;
  LinkPrecision first_links_ = LinkPrecision::kNative;  ///< of stage 0
  LinkPrecision links_ = LinkPrecision::kNative;        ///< of the others
  Profile profile_ = Profile::kExact;
  std::string other_ = workers_.start();
  std::vector<wire::RouteEntry> halves_ = {{worker_, {0, 3}}, {other_, {3, kFakeLayers}}};
  std::map<std::string, Peer> peers_;
  Peer* first_ = nullptr;
  Peer* last_ = nullptr;
};

TEST_F(WorkerChainTest, TwoStagesGiveWhatTheWholeModelDoes) {
  assign(halves_);
  EXPECT_EQ(answer({5, 6, 7}, 20), fake_answer({5, 6, 7}, kFakeLayers, 20));
}

TEST_F(WorkerChainTest, AWorkerMayStandInARouteTwice) {
  stages_ = 3;
  assign({{worker_, {0, 2}}, {other_, {2, 3}}, {worker_, {3, kFakeLayers}}});
  EXPECT_EQ(answer({5, 6, 7}, 20), fake_answer({5, 6, 7}, kFakeLayers, 20));
}

TEST_F(WorkerChainTest, AWorkerMayFollowItself) {
  assign({{worker_, {0, 2}}, {worker_, {2, kFakeLayers}}});
  EXPECT_EQ(answer({5, 6, 7}, 10), fake_answer({5, 6, 7}, kFakeLayers, 10));
}

TEST_F(WorkerChainTest, ActivationsMayTravelInInt8) {
  profile_ = Profile::kFast;
  first_links_ = links_ = LinkPrecision::kInt8;
  stages_ = 3;
  assign({{worker_, {0, 2}}, {other_, {2, 3}}, {worker_, {3, kFakeLayers}}});
  EXPECT_EQ(answer({5, 6, 7}, 20), fake_answer({5, 6, 7}, kFakeLayers, 20));
}

TEST_F(WorkerChainTest, StagesOfDifferentLinkPrecisionRefuseTheLink) {
  profile_ = Profile::kFast;
  first_links_ = LinkPrecision::kInt8;
  assign(halves_);
  ASSERT_TRUE(first_->send(address(0, 1), step_of(0, {5})));
  const auto result = first_->receive<wire::StepResult>();
  EXPECT_EQ(result.outcome, wire::Outcome::kFailed);
  EXPECT_THAT(result.error_message,
              HasSubstr("link_precision differs: the upstream stage has int8, this stage native"));
}

TEST_F(WorkerChainTest, StagesThatDifferRefuseTheLink) {
  workers_.isa = "another";
  halves_[1].address = workers_.start();
  assign(halves_);
  ASSERT_TRUE(first_->send(address(0, 1), step_of(0, {5})));
  const auto result = first_->receive<wire::StepResult>();
  EXPECT_EQ(result.outcome, wire::Outcome::kFailed);
  EXPECT_EQ(result.error_code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(result.error_message, HasSubstr(halves_[1].address));
  EXPECT_THAT(result.error_message,
              HasSubstr("isa differs: the upstream stage has 'test', this stage 'another'"));
}

TEST_F(WorkerChainTest, OnlyALinkedStageMaySendSteps) {
  assign(halves_);
  Peer stranger = workers_.greet(other_, "w9", wire::Role::kUpstreamStage);
  auto step = step_of(0, {5});
  step.sequences[0].tokens.clear();
  const std::vector<float> numbers = {1.0F, 1.0F};
  const std::vector<wire::Tensor> tensors = {
      {"hidden",
       ElementType::kF32,
       {1, 2},
       wire::SharedBytes::copy_of(std::as_bytes(std::span(numbers)))}};
  ASSERT_TRUE(stranger.send(address(1, 1), step, tensors));
  expect_closed(stranger, ErrorCode::kFailedPrecondition, "not expected on this connection");

  const wire::LinkStage good = {
      "digest", {0, 3},     {3, 6},           Profile::kExact,
      "test",   "2026.4.1", kFakeBlockTokens, {{"hidden", ElementType::kF32, {2}}}};
  Peer differs = workers_.greet(other_, "w9", wire::Role::kUpstreamStage);
  auto bad = good;
  bad.profile = Profile::kFast;
  ASSERT_TRUE(differs.send(address(1), bad));
  expect_closed(differs, ErrorCode::kFailedPrecondition, "profile differs");
  Peer other_engine = workers_.greet(other_, "w9", wire::Role::kUpstreamStage);
  bad = good;
  bad.engine = EngineKind::kStateful;
  ASSERT_TRUE(other_engine.send(address(1), bad));
  expect_closed(other_engine, ErrorCode::kFailedPrecondition, "engine differs");
  Peer early = workers_.greet(worker_, "w9", wire::Role::kUpstreamStage);
  ASSERT_TRUE(early.send(address(0), good));
  expect_closed(early, ErrorCode::kFailedPrecondition, "stage 0 has no stage before it");
  Peer late = workers_.greet(other_, "w9", wire::Role::kUpstreamStage);
  ASSERT_TRUE(late.send(address(1, 0, 2), good));
  expect_closed(late, ErrorCode::kFailedPrecondition, "stage 1 of this chain is not assigned");

  Peer linked = workers_.greet(other_, "w9", wire::Role::kUpstreamStage);
  ASSERT_TRUE(linked.send(address(1), good));
  linked.receive<wire::LinkAccepted>();
  ASSERT_TRUE(linked.send(address(1, 1), step, tensors));
  EXPECT_EQ(last_->receive<wire::StepResult>().outcome, wire::Outcome::kDone);
}

TEST_F(WorkerChainTest, ALostNextStageIsToldByName) {
  assign(halves_);
  answer({5}, 1);
  // The last stage's owner goes; the next step from stage 0 finds no stage there.
  last_->close();
  last_->handler->wait_for_close();
  ASSERT_TRUE(first_->send(address(0, 2), step_of(1, {6})));
  const auto fault = first_->receive<wire::Fault>();
  EXPECT_EQ(fault.code, ErrorCode::kUnavailable);
  EXPECT_THAT(fault.message, HasSubstr("the link to stage 1 at " + other_ + " is lost"));
  EXPECT_THAT(fault.message, HasSubstr("not assigned here")) << "the peer's own words";
}

TEST_F(WorkerChainTest, ANextStageThatNobodyServesIsToldByAddress) {
  halves_[1].address = "127.0.0.1:1";
  peers_[worker_] = workers_.greet(worker_, "anna");
  ASSERT_TRUE(peers_[worker_].send(address(0), assignment(halves_, 0)));
  peers_[worker_].receive<wire::StageReady>();
  ASSERT_TRUE(peers_[worker_].send(address(0, 1), step_of(0, {5})));
  const auto result = peers_[worker_].receive<wire::StepResult>();
  EXPECT_EQ(result.error_code, ErrorCode::kUnavailable);
  EXPECT_THAT(result.error_message, HasSubstr("127.0.0.1:1"));
}

TEST_F(WorkerChainTest, ARouteThatEndsBeforeTheModelSaysSo) {
  Peer peer = workers_.greet(worker_, "anna");
  ASSERT_TRUE(peer.send(address(0), assignment({{worker_, {0, 2}}}, 0)));
  peer.receive<wire::StageReady>();
  ASSERT_TRUE(peer.send(address(0, 1), step_of(0, {5})));
  EXPECT_THAT(peer.receive<wire::StepResult>().error_message,
              HasSubstr("layers 0-2 are the route's end"));
}

}  // namespace
}  // namespace paceline::worker
