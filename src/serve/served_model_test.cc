#include "serve/served_model.h"

#include <gmock/gmock.h>

#include "serve/serve_testing.h"

namespace paceline::serve {
namespace {

using testing::HasSubstr;

using ServedModelTest = ServeTest;

TEST_F(ServedModelTest, AChainThatEndsWhileNobodyAsksIsNoticed) {
  FakeExchange healthy;
  handlers_->health(healthy);
  EXPECT_EQ(healthy.status(), 200);
  chain_->end(Error(ErrorCode::kUnavailable, "worker w1 is gone"));
  FakeExchange ill;
  handlers_->health(ill);
  EXPECT_EQ(ill.status(), 503);
  EXPECT_EQ(registry_->models().at(0)->failure()->message(), "worker w1 is gone");
  expect_error(ask_chat(hello()), 503, "", "unavailable");
}

TEST_F(ServedModelTest, LookingTellsOfNodesAndStages) {
  ServedModel::Parts parts;
  parts.generator = generator_.get();
  parts.metrics = &metrics_->model("test");
  parts.nodes = [] { return std::map<std::string, bool>{{"a:1", true}, {"b:2", false}}; };
  registry_->set_ready("test", std::make_shared<ServedModel>(std::move(parts)));
  FakeExchange exchange;
  handlers_->show_metrics(exchange);
  EXPECT_THAT(exchange.text(), HasSubstr(R"(paceline_node_up{node="a:1"} 1)"));
  EXPECT_THAT(exchange.text(), HasSubstr(R"(paceline_node_up{node="b:2"} 0)"));
  EXPECT_THAT(exchange.text(), HasSubstr(R"(paceline_stage_use_ratio{model="test",stage="0"} 0)"));
}

}  // namespace
}  // namespace paceline::serve
