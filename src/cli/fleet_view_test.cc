#include "cli/fleet_view.h"

#include <gmock/gmock.h>

#include <sstream>

#include "obs/metrics.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// As a server with two models has it, one of them without anything done.
FleetView fleet() {
  obs::Metrics metrics;
  obs::ModelMetrics& a = metrics.model("a");
  a.set_requests(2, 5);
  a.set_kv_cache_use(0.25);
  a.add_generation_tokens(100);
  a.add_prompt_tokens(40);
  a.observe_first_token(std::chrono::milliseconds(200));
  a.observe_stage(0, obs::StepPhase::kPrefill, std::chrono::milliseconds(500));
  a.observe_stage(0, obs::StepPhase::kDecode, std::chrono::milliseconds(500));
  a.observe_stage(1, obs::StepPhase::kDecode, std::chrono::milliseconds(250));
  const auto models = ordered_json::parse(
      R"({"data": [{"id": "a", "status": "ready", "max_model_len": 1024, "stages": 2},)"
      R"({"id": "org/b", "status": "unloaded"}]})");
  return {"http://h:1/v1", true, "0.1",
          model_views(models, obs::MetricsText::parse(metrics.text()).value())};
}

TEST(FleetViewTest, ModelsWithWhatIsCountedOfThem) {
  const FleetView view = fleet();
  ASSERT_EQ(view.models.size(), 2U);
  const ModelView& a = view.models[0];
  EXPECT_EQ(a.context_tokens, 1024U);
  EXPECT_EQ(a.running, 2);
  EXPECT_EQ(a.waiting, 5);
  EXPECT_EQ(a.kv_use, 0.25);
  EXPECT_DOUBLE_EQ(a.stage_seconds.at("0"), 1.0) << "both phases";
  EXPECT_EQ(a.stage_seconds.size(), 2U);
  EXPECT_EQ(view.models[1].status, "unloaded");
  EXPECT_EQ(view.models[1].running, 0);
  const auto json = to_json(view);
  EXPECT_EQ(json["models"][0]["generation_tokens"], 100);
  EXPECT_DOUBLE_EQ(json["models"][0]["first_token_ms"], 200);
  EXPECT_FALSE(json["models"][1].contains("first_token_ms"));
}

TEST(FleetViewTest, RatesAreOfTheTimeBetween) {
  const ModelView before = fleet().models[0];
  ModelView after = before;
  after.generation_tokens += 50;
  after.first_tokens += 2;
  after.first_token_seconds += 0.3;
  after.stage_seconds["0"] += 1.5;
  after.stage_seconds["2"] = 9;
  const ModelRates rates = rates_of(before, after, 2);
  EXPECT_DOUBLE_EQ(rates.tokens_per_second, 25);
  EXPECT_DOUBLE_EQ(rates.first_token_ms, 150);
  EXPECT_DOUBLE_EQ(rates.stage_use.at("0"), 0.75);
  EXPECT_DOUBLE_EQ(rates.stage_use.at("1"), 0);
  EXPECT_DOUBLE_EQ(rates.stage_use.at("2"), 1) << "never more";
  after.generation_tokens = 10;
  EXPECT_DOUBLE_EQ(rates_of(before, after, 2).tokens_per_second, 5) << "loaded anew";
  EXPECT_EQ(rates_of(before, after, 0).tokens_per_second, 0);
}

TEST(FleetViewTest, TheTableHasALineForEachModel) {
  EXPECT_EQ(fleet_table(fleet()),
            "MODEL  STATE      CONTEXT  STAGES  RUNNING  WAITING    KV\n"
            "a      ready         1024       2        2        5   25%\n"
            "org/b  unloaded         -       -        0        0    0%\n");
}

TEST(FleetViewTest, TheScreenFitsItsWidth) {
  const FleetView view = fleet();
  ModelRates rates;
  rates.tokens_per_second = 12.34;
  rates.stage_use = {{"0", 0.5}};
  const std::string screen = fleet_screen(view, {{"a", rates}}, 80);
  EXPECT_THAT(screen, HasSubstr("12.3 tokens/s"));
  EXPECT_THAT(screen, HasSubstr("stage 0  [##########..........]  50%"));
  EXPECT_THAT(screen, HasSubstr("TTFT -"));
  EXPECT_THAT(screen, HasSubstr("org/b (unloaded)"));
  std::stringstream narrow(fleet_screen(view, {{"a", rates}}, 12));
  for (std::string line; std::getline(narrow, line);) EXPECT_LE(line.size(), 12U) << line;
}

TEST(FleetViewTest, AnyServersWordsAreHarmless) {
  const obs::MetricsText none;
  EXPECT_TRUE(model_views(ordered_json::parse("5"), none).empty());
  EXPECT_TRUE(model_views(ordered_json::parse(R"({"data": 5})"), none).empty());
  const auto odd = model_views(
      ordered_json::parse(
          R"({"data": [5, {}, {"id": 7}, {"id": "\u001b[2Jx", "status": 5, "max_model_len": -1}]})"),
      obs::MetricsText::parse("paceline_num_requests_running{model=\"\\u001b[2Jx\"} NaN\n"
                              "paceline_kv_cache_usage_perc 9\n")
          .value());
  ASSERT_EQ(odd.size(), 1U);
  EXPECT_EQ(odd[0].context_tokens, 0U);
  const FleetView view = {"u", false, "", odd};
  EXPECT_THAT(fleet_table(view), Not(HasSubstr("\x1b")));
  EXPECT_THAT(fleet_screen(view, {}, 80), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace paceline::cli
