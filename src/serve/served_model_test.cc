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
  EXPECT_EQ(registry_->cards().at(0).status, "failed");
  EXPECT_EQ(registry_->listed().at(0).state, ModelState::kFailed);
  expect_error(ask_chat(hello()), 503, "", "unavailable");
}

class LookingTest : public ServeTest {
 protected:
  void SetUp() override {
    ServeTest::SetUp();
    ServedModel::Parts parts;
    parts.facts = registry_->models().at(0)->facts();
    parts.generator = generator_.get();
    parts.tokenizer = &tokenizer_;
    parts.chat = ChatFormat{text::ChatTemplate::parse(kTemplate).value(), chat_source_, "", ""};
    parts.metrics = &metrics_->model("test");
    parts.nodes = [] { return std::map<std::string, bool>{{"a:1", true}, {"b:2", false}}; };
    registry_->set_ready("test", std::make_shared<ServedModel>(std::move(parts)));
  }

  std::string scrape() {
    FakeExchange exchange;
    handlers_->show_metrics(exchange);
    return exchange.text();
  }
  static double value_of(const std::string& text, const std::string& series) {
    const std::string line = "\npaceline_" + series + " ";
    const std::size_t at = text.find(line);
    if (at == std::string::npos) {
      ADD_FAILURE() << series << " is not there";
      return -1;
    }
    return std::stod(text.substr(at + line.size()));
  }
};

TEST_F(LookingTest, TellsOfNodesAndStages) {
  const std::string text = scrape();
  EXPECT_EQ(value_of(text, R"(node_up{node="a:1"})"), 1);
  EXPECT_EQ(value_of(text, R"(node_up{node="b:2"})"), 0);
  EXPECT_EQ(value_of(text, R"(stage_busy_seconds_total{model="test",stage="0"})"), 0);
  EXPECT_GT(value_of(text, R"(stage_seconds_total{model="test",stage="0"})"), 0);
}

TEST_F(LookingTest, NobodyTakesAnythingFromOthers) {
  const double before = value_of(scrape(), R"(stage_busy_seconds_total{model="test",stage="0"})");
  ask_chat(hello())->wait();
  (void)registry_->models().at(0)->load();  // as the page does
  const std::string one = scrape();
  const std::string other = scrape();
  // A step for each token of the answer, and each says that it computed for 50 us.
  const double least = 50e-6 * static_cast<double>(answer_.size());
  for (const std::string& text : {one, other}) {
    EXPECT_GE(value_of(text, R"(stage_busy_seconds_total{model="test",stage="0"})"),
              before + least);
    EXPECT_GT(value_of(text, R"(pipeline_bubble_ratio{model="test"})"), 0);
  }
}

TEST_F(LookingTest, AModelThatIsUnloadedHasNoNodes) {
  EXPECT_THAT(scrape(), HasSubstr("paceline_node_up{"));
  const double seconds = value_of(scrape(), R"(stage_seconds_total{model="test",stage="0"})");
  registry_->take("test").reset();
  const std::string text = scrape();
  EXPECT_THAT(text, testing::Not(HasSubstr("paceline_node_up{")));
  EXPECT_EQ(value_of(text, R"(pipeline_bubble_ratio{model="test"})"), 0);
  EXPECT_EQ(value_of(text, R"(stage_seconds_total{model="test",stage="0"})"), seconds)
      << "counters stay";
}

}  // namespace
}  // namespace paceline::serve
