// For tests of a worker as its peers see it: what they send, and the fixture.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/worker_testing.h"

namespace paceline::worker {

inline constexpr ChainId kChain{7};

inline wire::Address address(std::uint32_t stage, std::uint64_t step = 0, std::uint32_t epoch = 1) {
  return {kChain, Epoch(epoch), StageId(stage), StepId(step)};
}

inline wire::AssignStage assignment(const std::vector<wire::RouteEntry>& route, std::size_t stage) {
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
inline wire::Step step_of(std::uint32_t past, const std::vector<std::int64_t>& tokens) {
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
    EXPECT_THAT(fault.message, testing::HasSubstr(message));
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

}  // namespace paceline::worker
