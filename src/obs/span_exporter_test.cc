#include "obs/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

namespace paceline::obs {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Span> spans(int count, int first = 0) {
  std::vector<Span> made;
  for (int i = 0; i < count; ++i) {
    Span span;
    span.context = new_trace(true);
    span.name = std::to_string(first + i);
    made.push_back(std::move(span));
  }
  return made;
}

/// A receiver that remembers the names of spans, batch by batch, and may be away.
class Receiver {
 public:
  SpanDelivery take(const std::string& body) {
    const std::lock_guard lock(mutex_);
    ++asked_;
    changed_.notify_all();
    if (answer != SpanDelivery::kTaken) return answer;
    std::vector<std::string> names;
    const json parsed = json::parse(body);
    for (const json& span : parsed["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
      names.push_back(span["name"]);
    }
    batches_.push_back(names);
    return SpanDelivery::kTaken;
  }
  bool wait_for_calls(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return asked_ >= count; });
  }
  std::vector<std::vector<std::string>> batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }
  void set(SpanDelivery now) {
    const std::lock_guard lock(mutex_);
    answer = now;
  }

  SpanDelivery answer = SpanDelivery::kTaken;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::string>> batches_;
  int asked_ = 0;
};

class SpanExporterTest : public testing::Test {
 protected:
  std::unique_ptr<SpanExporter> start(const SpanExporterOptions& options) {
    return std::make_unique<SpanExporter>(
        options, [this](const std::string& body) { return receiver_.take(body); }, metrics_);
  }
  static SpanExporterOptions options(Duration interval) {
    SpanExporterOptions options;
    options.max_queued = 5;
    options.max_batch = 2;
    options.interval = interval;
    return options;
  }

  Metrics metrics_;
  Receiver receiver_;
};

TEST_F(SpanExporterTest, AFullBatchGoesAtOnceAndTheRestAtTheEnd) {
  const auto exporter = start(options(std::chrono::hours(1)));
  exporter->add(spans(2));
  ASSERT_TRUE(receiver_.wait_for_calls(1));
  EXPECT_THAT(receiver_.batches(), ElementsAre(ElementsAre("0", "1")));
}

TEST_F(SpanExporterTest, WhatIsLeftIsSentAtTheEnd) {
  auto exporter = start(options(std::chrono::hours(1)));
  exporter->add(spans(1));
  exporter.reset();
  EXPECT_THAT(receiver_.batches(), ElementsAre(ElementsAre("0")));
  EXPECT_THAT(metrics_.text(), HasSubstr("paceline_trace_spans_exported_total 1\n"));
  EXPECT_THAT(metrics_.text(), HasSubstr("paceline_trace_spans_dropped_total 0\n"));
}

TEST_F(SpanExporterTest, TimeSendsABatchThatIsNotFull) {
  const auto exporter = start(options(std::chrono::milliseconds(5)));
  exporter->add(spans(1));
  ASSERT_TRUE(receiver_.wait_for_calls(1));
}

TEST_F(SpanExporterTest, WhileNobodyTakesThemSpansWaitAndThenAreDropped) {
  receiver_.set(SpanDelivery::kLater);
  auto exporter = start(options(std::chrono::milliseconds(5)));
  exporter->add(spans(4));
  ASSERT_TRUE(receiver_.wait_for_calls(3));
  exporter->add(spans(4, 4));
  EXPECT_THAT(metrics_.text(), HasSubstr("paceline_trace_spans_dropped_total 3\n"));
  receiver_.set(SpanDelivery::kTaken);
  exporter.reset();
  std::vector<std::string> all;
  for (const auto& batch : receiver_.batches()) {
    EXPECT_LE(batch.size(), 2U);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_THAT(all, ElementsAre("0", "1", "2", "3", "4")) << "in order, each once";
  EXPECT_THAT(metrics_.text(), HasSubstr("paceline_trace_spans_exported_total 5\n"));
}

TEST_F(SpanExporterTest, WhatIsRefusedIsNotSentAgain) {
  receiver_.set(SpanDelivery::kRefused);
  auto exporter = start(options(std::chrono::hours(1)));
  exporter->add(spans(3));
  exporter.reset();
  EXPECT_TRUE(receiver_.batches().empty());
  EXPECT_THAT(metrics_.text(), HasSubstr("paceline_trace_spans_dropped_total 3\n"));
}

TEST_F(SpanExporterTest, AReceiverThatHangsHoldsNobodyUp) {
  std::atomic<bool> go_on = false;
  SpanExporter exporter(
      options(std::chrono::milliseconds(1)),
      [&](const std::string&) {
        go_on.wait(false);
        return SpanDelivery::kTaken;
      },
      metrics_);
  for (int i = 0; i < 100; ++i) exporter.add(spans(1));  // returns, or the test hangs
  EXPECT_THAT(metrics_.text(), testing::Not(HasSubstr("paceline_trace_spans_dropped_total 0\n")));
  go_on = true;
  go_on.notify_all();
}

}  // namespace
}  // namespace paceline::obs
