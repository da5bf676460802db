// For tests of the pool and the chain: real workers with fake engines, and peers that misbehave.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/chain.h"
#include "worker/worker_testing.h"

namespace paceline::coordinator {

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
    plan.logical_block_tokens = worker::kFakeBlockTokens;
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
  /// Over as many new workers, each with one layer and the last with the rest.
  std::unique_ptr<Chain> start_over(std::uint32_t stages) {
    ChainPlan divided = plan({});
    divided.context_tokens = 96;
    divided.kv_blocks = 128;
    for (std::uint32_t i = 0; i < stages; ++i) {
      const std::uint32_t end = i + 1 == stages ? worker::kFakeLayers : i + 1;
      divided.route.push_back({workers_.start(), {i, end}});
    }
    auto chain = start(divided);
    EXPECT_TRUE(chain) << chain.error().message();
    return *std::move(chain);
  }
  template <typename T>
  static void expect_error(const Result<T>& result, ErrorCode code,
                           const std::vector<std::string>& parts) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    for (const auto& part : parts) EXPECT_THAT(result.error().message(), testing::HasSubstr(part));
  }

  worker::ShiftedClock clock_;
  worker::FakeWorkers workers_;
};

}  // namespace paceline::coordinator
