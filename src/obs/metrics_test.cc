#include "obs/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace paceline::obs {
namespace {

using std::chrono::milliseconds;

/// Prometheus' text format, parsed strictly: each line is a comment or NAME{LABELS} VALUE, and each
/// sample's family was declared before.
struct Exposition {
  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) parse(line);
  }

  void parse(const std::string& line) {
    if (line.starts_with("# HELP ")) return;
    if (line.starts_with("# TYPE ")) {
      const std::size_t space = line.find(' ', 7);
      EXPECT_TRUE(types.emplace(line.substr(7, space - 7), line.substr(space + 1)).second) << line;
      return;
    }
    const std::size_t space = line.rfind(' ');
    ASSERT_NE(space, std::string::npos) << line;
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + space + 1, &end);
    ASSERT_EQ(*end, '\0') << line;
    const std::string series = line.substr(0, space);
    EXPECT_TRUE(samples.emplace(series, value).second) << "twice: " << line;
    std::string name = series.substr(0, series.find('{'));
    EXPECT_THAT(name, testing::MatchesRegex("paceline_[a-z0-9_]+"));
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      if (!types.contains(name) && name.ends_with(suffix)) {
        name.resize(name.size() - std::string(suffix).size());
      }
    }
    EXPECT_TRUE(types.contains(name)) << line;
  }

  double at(const std::string& series) const {
    const auto found = samples.find("paceline_" + series);
    if (found == samples.end()) {
      ADD_FAILURE() << series << " is not there";
      return -1;
    }
    return found->second;
  }
  std::size_t count_of(const std::string& prefix) const {
    std::size_t count = 0;
    for (const auto& [series, value] : samples) count += series.starts_with("paceline_" + prefix);
    return count;
  }

  std::map<std::string, std::string> types;
  std::map<std::string, double> samples;
};

TEST(Metrics, NamesAndTypesAreThereBeforeTheFirstRequest) {
  Metrics metrics;
  metrics.model("m");
  const Exposition text(metrics.text());
  const std::map<std::string, std::string> expected = {
      {"num_requests_running", "gauge"},
      {"num_requests_waiting", "gauge"},
      {"kv_cache_usage_perc", "gauge"},
      {"prefix_cache_queries_total", "counter"},
      {"prefix_cache_hits_total", "counter"},
      {"prompt_tokens_total", "counter"},
      {"generation_tokens_total", "counter"},
      {"time_to_first_token_seconds", "histogram"},
      {"inter_token_latency_seconds", "histogram"},
      {"e2e_request_latency_seconds", "histogram"},
      {"request_queue_time_seconds", "histogram"},
      {"request_prefill_time_seconds", "histogram"},
      {"request_decode_time_seconds", "histogram"},
      {"request_success_total", "counter"},
      {"pipeline_bubble_ratio", "gauge"},
  };
  for (const auto& [name, type] : expected) {
    ASSERT_TRUE(text.types.contains("paceline_" + name)) << name;
    EXPECT_EQ(text.types.at("paceline_" + name), type) << name;
  }
  EXPECT_EQ(text.at("num_requests_running{model=\"m\"}"), 0);
  EXPECT_EQ(text.count_of("request_success_total{"), 5U);
}

TEST(Metrics, CountWhatIsToldThem) {
  Metrics metrics;
  ModelMetrics& model = metrics.model("org/m");
  EXPECT_EQ(&model, &metrics.model("org/m"));
  model.set_requests(3, 4);
  model.set_kv_cache_use(0.25);
  model.add_prefix_cache(100, 60);
  model.add_prefix_cache(10, 0);
  model.add_prompt_tokens(110);
  model.add_generation_tokens(7);
  model.set_bubble_ratio(0.5);
  model.add_stage_time(1, 0.5, 1);
  model.add_stage_time(1, 0.25, 1);
  model.observe_stage_queue(1, milliseconds(2));
  model.add_hop_bytes("0", "1", 4096);
  model.add_hop_bytes("0", "1", 4096);
  metrics.set_nodes({{"a:7400", true}, {"b:7400", true}});
  metrics.set_nodes({{"a:7400", true}, {"b:7400", false}});
  const Exposition text(metrics.text());
  EXPECT_EQ(text.at("num_requests_running{model=\"org/m\"}"), 3);
  EXPECT_EQ(text.at("num_requests_waiting{model=\"org/m\"}"), 4);
  EXPECT_EQ(text.at("kv_cache_usage_perc{model=\"org/m\"}"), 0.25);
  EXPECT_EQ(text.at("prefix_cache_queries_total{model=\"org/m\"}"), 110);
  EXPECT_EQ(text.at("prefix_cache_hits_total{model=\"org/m\"}"), 60);
  EXPECT_EQ(text.at("prompt_tokens_total{model=\"org/m\"}"), 110);
  EXPECT_EQ(text.at("generation_tokens_total{model=\"org/m\"}"), 7);
  EXPECT_EQ(text.at("pipeline_bubble_ratio{model=\"org/m\"}"), 0.5);
  EXPECT_EQ(text.at("stage_busy_seconds_total{model=\"org/m\",stage=\"1\"}"), 0.75);
  EXPECT_EQ(text.at("stage_seconds_total{model=\"org/m\",stage=\"1\"}"), 2);
  EXPECT_EQ(text.at("stage_queue_seconds_count{model=\"org/m\",stage=\"1\"}"), 1);
  EXPECT_EQ(text.at("hop_bytes_total{from=\"0\",model=\"org/m\",to=\"1\"}"), 8192);
  EXPECT_EQ(text.at("node_up{node=\"a:7400\"}"), 1);
  EXPECT_EQ(text.at("node_up{node=\"b:7400\"}"), 0);
}

TEST(Metrics, NodesThatAreGoneAreForgotten) {
  Metrics metrics;
  metrics.set_nodes({{"a", true}, {"b", false}});
  metrics.set_nodes({{"b", true}, {"c", true}});
  const Exposition text(metrics.text());
  EXPECT_EQ(text.count_of("node_up{"), 2U);
  EXPECT_EQ(text.at("node_up{node=\"b\"}"), 1);
  EXPECT_EQ(text.at("node_up{node=\"c\"}"), 1);
  metrics.set_nodes({});
  EXPECT_EQ(Exposition(metrics.text()).count_of("node_up{"), 0U);
}

TEST(Metrics, HistogramsHaveTheBoundsOfDashboards) {
  Metrics metrics;
  ModelMetrics& model = metrics.model("m");
  model.observe_first_token(milliseconds(50));
  model.observe_first_token(std::chrono::seconds(100));
  model.observe_next_token(milliseconds(20));
  model.observe_request({milliseconds(1), milliseconds(49), milliseconds(950), milliseconds(1000)},
                        FinishedReason::kLength);
  model.observe_stage(0, StepPhase::kDecode, milliseconds(3));
  model.observe_stage(0, StepPhase::kPrefill, milliseconds(30));
  const Exposition text(metrics.text());
  EXPECT_EQ(text.at("time_to_first_token_seconds_count{model=\"m\"}"), 2);
  EXPECT_NEAR(text.at("time_to_first_token_seconds_sum{model=\"m\"}"), 100.05, 1e-9);
  EXPECT_EQ(text.at("time_to_first_token_seconds_bucket{model=\"m\",le=\"0.001\"}"), 0);
  EXPECT_EQ(text.at("time_to_first_token_seconds_bucket{model=\"m\",le=\"0.06\"}"), 1);
  EXPECT_EQ(text.at("time_to_first_token_seconds_bucket{model=\"m\",le=\"2560\"}"), 2);
  EXPECT_EQ(text.at("time_to_first_token_seconds_bucket{model=\"m\",le=\"+Inf\"}"), 2);
  EXPECT_EQ(text.at("inter_token_latency_seconds_bucket{model=\"m\",le=\"0.01\"}"), 0);
  EXPECT_EQ(text.at("inter_token_latency_seconds_bucket{model=\"m\",le=\"0.025\"}"), 1);
  EXPECT_EQ(text.at("inter_token_latency_seconds_bucket{model=\"m\",le=\"80\"}"), 1);
  EXPECT_EQ(text.at("e2e_request_latency_seconds_bucket{model=\"m\",le=\"1\"}"), 1);
  EXPECT_EQ(text.at("e2e_request_latency_seconds_bucket{model=\"m\",le=\"0.8\"}"), 0);
  EXPECT_NEAR(text.at("request_queue_time_seconds_sum{model=\"m\"}"), 0.001, 1e-9);
  EXPECT_NEAR(text.at("request_prefill_time_seconds_sum{model=\"m\"}"), 0.049, 1e-9);
  EXPECT_NEAR(text.at("request_decode_time_seconds_sum{model=\"m\"}"), 0.95, 1e-9);
  EXPECT_EQ(text.at("request_success_total{finished_reason=\"length\",model=\"m\"}"), 1);
  EXPECT_EQ(text.at("request_success_total{finished_reason=\"stop\",model=\"m\"}"), 0);
  EXPECT_EQ(text.at("stage_compute_seconds_count{model=\"m\",phase=\"decode\",stage=\"0\"}"), 1);
  EXPECT_EQ(text.at("stage_compute_seconds_count{model=\"m\",phase=\"prefill\",stage=\"0\"}"), 1);
}

TEST(Metrics, WhatClientsSendMakesNoNewSeries) {
  Metrics metrics;
  metrics.count_http("GET", "/v1/models", 200, milliseconds(1));
  metrics.count_http("GET", "/v1/models", 200, milliseconds(1));
  for (int i = 0; i < 100; ++i)
    metrics.count_http("M" + std::to_string(i), "", 404, milliseconds(1));
  metrics.count_http("POST", "/v1/chat/completions", 0, milliseconds(1));
  metrics.set_http_open(5, 2, 1);
  const Exposition text(metrics.text());
  EXPECT_EQ(text.at("http_requests_total{method=\"GET\",route=\"/v1/models\",status=\"200\"}"), 2);
  EXPECT_EQ(text.at("http_requests_total{method=\"other\",route=\"other\",status=\"404\"}"), 100);
  EXPECT_EQ(
      text.at(
          "http_requests_total{method=\"POST\",route=\"/v1/chat/completions\",status=\"none\"}"),
      1);
  EXPECT_EQ(text.count_of("http_requests_total"), 3U);
  EXPECT_EQ(text.at("http_connections"), 5);
  EXPECT_EQ(text.at("http_requests_in_flight"), 2);
  EXPECT_EQ(text.at("http_streams"), 1);
}

/// Its families and, of counters and gauges, its labels: a panel that shows nothing is of no use.
TEST(Metrics, TheDashboardShowsWhatThereIs) {
  Metrics metrics;
  ModelMetrics& model = metrics.model("m");
  model.observe_stage(0, StepPhase::kDecode, milliseconds(1));
  model.observe_stage_queue(0, milliseconds(1));
  model.add_stage_time(0, 1, 1);
  model.add_hop_bytes("0", "1", 1);
  metrics.set_nodes({{"a", true}});
  metrics.count_http("GET", "/v1/models", 200, milliseconds(1));
  metrics.set_http_open(1, 1, 1);
  const Exposition text(metrics.text());
  std::ifstream file(PACELINE_SOURCE_DIR "/deploy/grafana/paceline.json");
  const std::string dashboard((std::istreambuf_iterator<char>(file)), {});
  const std::regex name("paceline_[a-z0-9_]+");
  std::set<std::string> shown;
  for (std::sregex_iterator at(dashboard.begin(), dashboard.end(), name), end; at != end; ++at) {
    shown.insert(at->str());
  }
  EXPECT_GE(shown.size(), 25U);
  for (const std::string& series : shown) {
    const auto is_series = [&series](const auto& sample) {
      return sample.first == series || sample.first.starts_with(series + "{");
    };
    EXPECT_TRUE(std::any_of(text.samples.begin(), text.samples.end(), is_series)) << series;
  }
  // And the other way round: nothing that is counted is left out.
  for (const auto& [family, type] : text.types) {
    const auto is_family = [&family = family](const std::string& series) {
      return series.starts_with(family);
    };
    EXPECT_TRUE(std::any_of(shown.begin(), shown.end(), is_family)) << family;
  }
}

TEST(Metrics, LabelsAreEscaped) {
  Metrics metrics;
  metrics.model("a\"b\\c\nd").add_prompt_tokens(1);
  const std::string text = metrics.text();
  EXPECT_THAT(text, testing::HasSubstr(R"({model="a\"b\\c\nd"} 1)"));
}

TEST(Metrics, ManyThreadsLoseNothing) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 1000; ++i) {
        metrics.model("m").add_generation_tokens(1);
        metrics.model("m").observe_next_token(milliseconds(5));
        metrics.model("m").observe_stage(0, StepPhase::kDecode, milliseconds(1));
        if (i % 100 == 0) metrics.text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Exposition text(metrics.text());
  EXPECT_EQ(text.at("generation_tokens_total{model=\"m\"}"), 4000);
  EXPECT_EQ(text.at("inter_token_latency_seconds_count{model=\"m\"}"), 4000);
  EXPECT_EQ(text.at("stage_compute_seconds_count{model=\"m\",phase=\"decode\",stage=\"0\"}"), 4000);
}

}  // namespace
}  // namespace paceline::obs
