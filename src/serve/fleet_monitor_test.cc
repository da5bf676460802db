#include "serve/fleet_monitor.h"

#include <gmock/gmock.h>

#include "base/version.h"
#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

class FleetMonitorTest : public ServeTest {
 protected:
  std::shared_ptr<FakeExchange> ask(std::map<std::string, std::string> query = {}) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->request_.query = std::move(query);
    monitor().show(*exchange);
    return exchange;
  }
  FleetMonitor& monitor() {
    if (!monitor_) monitor_ = std::make_unique<FleetMonitor>(*registry_, log_, clock_, options_);
    return *monitor_;
  }
  void TearDown() override {
    monitor_.reset();
    ServeTest::TearDown();
  }

  FleetMonitor::Options options_;
  std::unique_ptr<FleetMonitor> monitor_;
};

TEST_F(FleetMonitorTest, ModelsAndTheirStages) {
  StageView stage;
  stage.layers = {0, 12};
  stage.worker = "desk";
  stage.address = "10.0.0.2:7400";
  stage.round_trip = std::chrono::microseconds(1500);
  stages_ = {stage, StageView()};
  registry_->announce("later");
  const auto fleet = ask()->json();
  EXPECT_EQ(fleet["version"], kVersion);
  ASSERT_EQ(fleet["models"].size(), 2U);
  const auto& model = fleet["models"][0];
  EXPECT_EQ(model["id"], "test");
  EXPECT_EQ(model["state"], "ready");
  EXPECT_EQ(model["can_chat"], true);
  EXPECT_EQ(model["context_tokens"], kContext);
  EXPECT_EQ(model["kv_blocks"], 512);
  ASSERT_EQ(model["stages"].size(), 2U);
  EXPECT_EQ(model["stages"][0]["layers"], (ordered_json{0, 12}));
  EXPECT_EQ(model["stages"][0]["worker"], "desk");
  EXPECT_EQ(model["stages"][0]["round_trip_ms"], 1.5);
  EXPECT_EQ(model["stages"][1]["round_trip_ms"], nullptr);
  EXPECT_EQ(fleet["models"][1]["id"], "later");
  EXPECT_EQ(fleet["models"][1]["state"], "loading");
}

TEST_F(FleetMonitorTest, SamplesOfWhatWasAnswered) {
  monitor().sample();
  ask_chat(hello())->wait();
  monitor().sample();
  const auto fleet = ask({{"sample", "1"}})->json();
  EXPECT_EQ(fleet["last_sample"], 2);
  const auto& samples = fleet["models"][0]["samples"];
  EXPECT_EQ(samples["number"], ordered_json::array({2}));
  EXPECT_GT(samples["tokens_per_s"][0].get<double>(), 0);
  EXPECT_GT(samples["prompt_tokens_per_s"][0].get<double>(), 0);
  EXPECT_TRUE(samples["first_token"]["median_ms"][0].is_number());
  EXPECT_EQ(samples["stage_use"].size(), 1U);
  EXPECT_EQ(ask()->json()["models"][0]["samples"]["number"], (ordered_json{1, 2}));
  monitor().sample();
  const auto later = ask({{"sample", "2"}})->json()["models"][0]["samples"];
  EXPECT_EQ(later["tokens_per_s"][0], 0) << "what was told once is not told again";
  EXPECT_EQ(later["first_token"]["median_ms"][0], nullptr);
}

TEST_F(FleetMonitorTest, RequestsWithoutTheirTexts) {
  auto exchange = std::make_shared<FakeExchange>(hello());
  exchange->request_.id = "req-7";
  exchange->request_.path = "/v1/chat/completions";
  exchange->request_.tenant = "desk";
  script(hello_tokens());
  handlers_->chat(exchange);
  exchange->wait();
  const auto answer = ask();
  const auto fleet = answer->json();
  ASSERT_EQ(fleet["requests"].size(), 1U);
  const auto& request = fleet["requests"][0];
  EXPECT_EQ(request["id"], "req-7");
  EXPECT_EQ(request["route"], "/v1/chat/completions");
  EXPECT_EQ(request["model"], "test");
  EXPECT_EQ(request["tenant"], "desk");
  EXPECT_EQ(request["prompt_tokens"], hello_tokens());
  EXPECT_EQ(request["generated_tokens"], answer_.size() + 1);
  EXPECT_EQ(request["end"], "stop");
  EXPECT_TRUE(request["first_token_ms"].is_number());
  EXPECT_FALSE(request.contains("status"));
  EXPECT_THAT(answer->text(), Not(HasSubstr("Hello there")));
  EXPECT_EQ(ask({{"request", "1"}})->json()["requests"].size(), 0U);
}

TEST_F(FleetMonitorTest, ARequestWhoseClientGoesIsCancelled) {
  chain_->hold(true);
  const auto exchange = ask_chat(hello(R"("stream": true)"));
  exchange->go();
  chain_->hold(false);
  for (int i = 0; i < 2000 && log_.after(0).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto requests = ask()->json()["requests"];
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0]["end"], "cancelled");
  EXPECT_EQ(requests[0]["first_token_ms"], nullptr);
}

TEST_F(FleetMonitorTest, NumbersThatAreNone) {
  for (const char* text : {"-1", "", "1x", "99999999999999999999"}) {
    expect_error(ask({{"sample", text}}), 400, "sample", "invalid_value");
    expect_error(ask({{"request", text}}), 400, "request", "invalid_value");
  }
}

TEST_F(FleetMonitorTest, AModelThatHasFailedOrIsGone) {
  monitor().sample();
  registry_->find("test")->model->note_failure(Error(ErrorCode::kUnavailable, "gone"));
  monitor().sample();
  EXPECT_EQ(ask()->json()["models"][0]["state"], "failed");
  registry_->remove("test");
  monitor().sample();
  EXPECT_EQ(ask()->json()["models"].size(), 0U);
}

TEST_F(FleetMonitorTest, LooksByItself) {
  options_.interval = std::chrono::milliseconds(1);
  options_.kept_samples = 4;
  monitor().start();
  for (int i = 0; i < 2000 && ask()->json()["last_sample"] < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto fleet = ask()->json();
  EXPECT_GE(fleet["last_sample"], 6);
  EXPECT_EQ(fleet["models"][0]["samples"]["number"].size(), 4U);
}

}  // namespace
}  // namespace paceline::serve
