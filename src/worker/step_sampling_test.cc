// A last stage whose steps come in two parts, as its peers see it.
#include <gmock/gmock.h>

#include "wire/step_parts.h"
#include "worker/worker_testing.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

constexpr LayerRange kLastLayers = {3, kFakeLayers};

wire::Address address(std::uint32_t stage, std::uint64_t step = 0) {
  return {ChainId(7), Epoch(1), StageId(stage), StepId(step)};
}

/// One row that the fake model's last layers see as `number`; opened with the first step.
wire::Step step_of(std::uint32_t past) {
  wire::Step step;
  wire::StepSequence rows{SequenceId(1), past, 1, {}, {0}, {}, {{}}};
  for (std::uint32_t block = 0; block < 16; ++block) rows.blocks[0].emplace_back(block);
  step.sequences = {rows};
  if (past > 0) return step;
  step.opened.emplace_back();
  step.opened[0].sequence = SequenceId(1);
  step.opened[0].prompt_tokens = 1;
  return step;
}

std::vector<wire::Tensor> boundary(float number) {
  std::vector<std::byte> bytes(2 * sizeof(float));
  std::memcpy(bytes.data(), &number, sizeof(float));
  return {{"hidden", ElementType::kF32, {1, 2}, wire::SharedBytes::own(std::move(bytes))}};
}

class StepSamplingTest : public testing::Test {
 protected:
  /// Stage 1 of 2 is assigned.
  void SetUp() override {
    coordinator_ = workers_.greet(worker_, "anna");
    wire::AssignStage assign;
    assign.package_digest = "digest";
    assign.layers = kLastLayers;
    assign.kv_blocks = 16;
    assign.logical_block_tokens = kFakeBlockTokens;
    assign.route = {{"elsewhere:1", {0, 3}}, {worker_, kLastLayers}};
    ASSERT_TRUE(coordinator_.send(address(1), assign));
    coordinator_.receive<wire::StageReady>();
  }
  Status send_rows(std::uint64_t step) {
    wire::Step rows = step_of(static_cast<std::uint32_t>(step - 1));
    (void)wire::split_sampling(rows);
    return coordinator_.send(address(1, step), rows, boundary(5));
  }
  Status send_sampling(std::uint64_t step) {
    wire::Step whole = step_of(static_cast<std::uint32_t>(step - 1));
    return coordinator_.send(address(1, step), wire::split_sampling(whole));
  }
  /// Stage 0 of 2 is assigned, the next one is reached over the coordinator.
  Peer first_stage() {
    const std::string other = workers_.start();
    Peer peer = workers_.greet(other, "bert");
    wire::AssignStage assign;
    assign.package_digest = "digest";
    assign.layers = {0, 3};
    assign.logical_block_tokens = kFakeBlockTokens;
    assign.route = {{other, {0, 3}}, {"", kLastLayers}};
    EXPECT_TRUE(peer.send(address(0), assign));
    peer.receive<wire::StageReady>();
    return peer;
  }
  void expect_closed(Peer& peer, const char* message) {
    const auto fault = peer.receive<wire::Fault>();
    EXPECT_THAT(fault.message, HasSubstr(message));
    EXPECT_TRUE(peer.handler->wait_for_close());
  }
  void expect_failed(const char* message) {
    const auto result = coordinator_.receive<wire::StepResult>();
    EXPECT_EQ(result.outcome, wire::Outcome::kFailed);
    EXPECT_EQ(result.error_code, ErrorCode::kUnavailable);
    EXPECT_THAT(result.error_message, HasSubstr(message));
  }

  FakeWorkers workers_;
  std::string worker_ = workers_.start();
  Peer coordinator_;
};

TEST_F(StepSamplingTest, TheSamplesAreThoseOfAWholeStepWhicheverComesFirst) {
  ASSERT_TRUE(send_rows(1));
  ASSERT_TRUE(send_sampling(1));
  const auto first = coordinator_.receive<wire::StepResult>();
  ASSERT_TRUE(send_sampling(2));
  ASSERT_TRUE(send_rows(2));
  const auto second = coordinator_.receive<wire::StepResult>();
  ASSERT_EQ(first.outcome, wire::Outcome::kDone) << first.error_message;
  ASSERT_EQ(second.outcome, wire::Outcome::kDone) << second.error_message;

  const std::string other = workers_.start();
  Peer whole = workers_.greet(other, "bert");
  wire::AssignStage assign;
  assign.package_digest = "digest";
  assign.layers = kLastLayers;
  assign.logical_block_tokens = kFakeBlockTokens;
  assign.route = {{"elsewhere:1", {0, 3}}, {other, kLastLayers}};
  ASSERT_TRUE(whole.send(address(1), assign));
  whole.receive<wire::StageReady>();
  ASSERT_TRUE(whole.send(address(1, 1), step_of(0), boundary(5)));
  EXPECT_EQ(whole.receive<wire::StepResult>().samples, first.samples);
  ASSERT_TRUE(whole.send(address(1, 2), step_of(1), boundary(5)));
  EXPECT_EQ(whole.receive<wire::StepResult>().samples, second.samples);
}

TEST_F(StepSamplingTest, APartThatIsPassedOverFailsItsStepByName) {
  ASSERT_TRUE(send_rows(1));
  ASSERT_TRUE(send_sampling(2));
  expect_failed("how it is sampled did not come, but step 2's did");
}

TEST_F(StepSamplingTest, APartThatNeverComesFailsItsStepByName) {
  ASSERT_TRUE(send_rows(1));
  ASSERT_TRUE(coordinator_.send({}, wire::Ping{1, 0}));
  coordinator_.receive<wire::Pong>();
  workers_.clock().shift = std::chrono::seconds(11);
  ASSERT_TRUE(coordinator_.send({}, wire::Ping{2, 0}));
  bool has_failed = false;
  for (int frame = 0; frame < 2; ++frame) {
    const auto frames = coordinator_.handler->wait_for_frames(coordinator_.received + 1);
    ASSERT_GT(frames.size(), coordinator_.received);
    if (std::holds_alternative<wire::Pong>(frames[coordinator_.received].message)) {
      ++coordinator_.received;
    } else {
      expect_failed("has not come from the coordinator for 10 s");
      has_failed = true;
    }
  }
  EXPECT_TRUE(has_failed);
}

TEST_F(StepSamplingTest, TheStageBeforeCannotSayHowItSamples) {
  ASSERT_TRUE(send_sampling(1));
  ASSERT_TRUE(coordinator_.send(address(1, 1), step_of(0), boundary(5)));
  expect_closed(coordinator_, "says how it is sampled, which comes apart");
}

TEST_F(StepSamplingTest, NumbersRise) {
  ASSERT_TRUE(send_sampling(2));
  ASSERT_TRUE(send_sampling(2));
  expect_closed(coordinator_, "step: 2, expected one after 2");
}

TEST_F(StepSamplingTest, OnlyItsCoordinatorSaysHowItSamples) {
  Peer stage = workers_.greet(worker_, "w9", wire::Role::kUpstreamStage);
  ASSERT_TRUE(stage.send(address(1, 1), wire::StepSampling()));
  expect_closed(stage, "not expected on this connection");
  ASSERT_TRUE(coordinator_.send(address(0, 1), wire::StepSampling()));
  expect_closed(coordinator_, "a step for stage 0, which is not assigned here");
}

TEST_F(StepSamplingTest, AStageThatIsNotTheLastRefusesIt) {
  Peer peer = first_stage();
  ASSERT_TRUE(peer.send(address(0, 1), wire::StepSampling()));
  expect_closed(peer, "stage 0 is not the last one");
}

TEST_F(StepSamplingTest, AStageWithoutAnAddressIsReachedOverTheCoordinator) {
  Peer peer = first_stage();
  for (std::uint32_t past = 0; past < 2; ++past) {
    wire::Step rows = step_of(past);
    (void)wire::split_sampling(rows);
    rows.sequences[0].tokens = {std::int64_t{5}};
    ASSERT_TRUE(peer.send(address(0, past + 1), rows));
    if (past == 0) {
      // What it says of itself is what the stage behind compares.
      const auto offer = peer.receive<wire::LinkStage>();
      EXPECT_EQ(offer.downstream_layers, kLastLayers);
      ASSERT_TRUE(coordinator_.send(address(1), offer));
      coordinator_.receive<wire::LinkAccepted>();
    }
    const auto passed = peer.receive<wire::Step>();
    EXPECT_TRUE(passed.sampled_apart);
    EXPECT_TRUE(passed.sequences[0].tokens.empty());
  }
  wire::LinkStage differs{"digest", {0, 2}, kLastLayers, {}, "test", "2026.4.1", 4, {}};
  ASSERT_TRUE(coordinator_.send(address(1), differs));
  expect_closed(coordinator_, "differs");
}

}  // namespace
}  // namespace paceline::worker
