#include "cli/bench_report.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

BenchReport report() {
  BenchReport report;
  report.title = "model <x> over 2 stages";
  report.targets = {500, 0};
  for (int i = 0; i < 4; ++i) {
    load::RequestRecord record;
    record.first_token = milliseconds(200 * (i + 1));
    record.last_token = record.first_token + milliseconds(100);
    record.prompt_tokens = 10;
    record.output_tokens = 11;
    report.result.records.push_back(record);
  }
  report.result.records[3].outcome = load::Outcome::kRefused;
  report.summary = load::summarize(report.result.records, report.targets);
  report.result.stage_use = {0.5, 0.25};
  report.result.samples = {{0.5, 3, 1, 20, {0.5, 0.25}, {3, 4}},
                           {0.8, 2, 0, 30, {0.5, 0.25}, {2, 4}},
                           {1.0, 1, 0, 33, {0.5, 0.25}, {1, 4}}};
  report.result.before.scheduler.preemptions = 2;
  report.result.after.scheduler.preemptions = 5;
  report.result.after.scheduler.available_blocks = 64;
  report.kv_blocks = 64;
  return report;
}

TEST(BenchReportTest, TheTableTellsWhatWasMeasured) {
  const std::string table = bench_table(report());
  EXPECT_THAT(table, HasSubstr("3 done, 0 cancelled, 1 refused in 0.7 s"));
  EXPECT_THAT(table, HasSubstr("mean 400.0, p50 400.0"));
  EXPECT_THAT(table, HasSubstr("(2 of 3; TTFT 500 ms, per token any)"));
  EXPECT_THAT(table, HasSubstr("50 %, 25 %"));
  EXPECT_THAT(table, HasSubstr("2 groups most of the time"));
  EXPECT_THAT(table, HasSubstr("64 of 64 free at the end"));
}

TEST(BenchReportTest, TheJsonHasTheSameFigures) {
  const auto json = bench_json(report());
  EXPECT_EQ(json.at("done"), 3);
  EXPECT_EQ(json.at("good"), 2);
  EXPECT_EQ(json.at("preemptions"), 3) << "of this load alone";
  EXPECT_DOUBLE_EQ(json.at("tpot_ms").at("p50"), 10);
  EXPECT_NEAR(json.at("output_tokens_per_second"), 33 / 0.7, 1e-6);
}

TEST(BenchReportTest, ThePageStandsAlone) {
  const std::string html = bench_html(report());
  EXPECT_THAT(html, HasSubstr("model &lt;x&gt; over 2 stages"));
  std::size_t plots = 0;
  for (std::size_t at = html.find("<svg"); at != std::string::npos;
       at = html.find("<svg", at + 1)) {
    ++plots;
  }
  EXPECT_EQ(plots, 6U);
  EXPECT_THAT(html, testing::Not(testing::AnyOf(HasSubstr("src="), HasSubstr("href="))));
  EXPECT_THAT(html, HasSubstr("stage 1</text>"));
}

}  // namespace
}  // namespace paceline::cli
