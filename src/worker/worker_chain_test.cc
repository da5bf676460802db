// Several workers in a chain, as their peers see them.
#include <gmock/gmock.h>

#include <map>

#include "worker/worker.h"
#include "worker/worker_fixture_testing.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

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
