#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/html.h"
#include "cli/report.h"
#include "load/plot.h"

namespace paceline::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string in_ms(const load::Distribution& of) {
  return fmt::format("mean {:.1f}, p50 {:.1f}, p90 {:.1f}, p99 {:.1f}, most {:.1f} ms", of.mean,
                     of.p50, of.p90, of.p99, of.most);
}

nlohmann::json to_json(const load::Distribution& of) {
  return {{"mean", of.mean}, {"p50", of.p50}, {"p90", of.p90}, {"p99", of.p99}, {"max", of.most}};
}

std::string in_per_cent(const std::vector<double>& shares) {
  std::string text;
  for (const double share : shares) {
    text += fmt::format("{}{:.0f} %", text.empty() ? "" : ", ", 100 * share);
  }
  return text;
}

std::string target(double ms) { return ms > 0 ? fmt::format("{:g} ms", ms) : "any"; }

/// What the scheduler counted during the load.
sched::SchedulerStats work_of(const BenchResult& result) {
  sched::SchedulerStats work = result.after.scheduler;
  const sched::SchedulerStats& before = result.before.scheduler;
  work.prompt_tokens -= before.prompt_tokens;
  work.reused_tokens -= before.reused_tokens;
  work.preemptions -= before.preemptions;
  work.drafted_tokens -= before.drafted_tokens;
  work.accepted_drafts -= before.accepted_drafts;
  work.planned_rows -= before.planned_rows;
  work.wasted_rows -= before.wasted_rows;
  return work;
}

/// The one with the median number of groups: at the end only stragglers are left.
sched::PipelineShape usual_shape(const BenchResult& result) {
  std::vector<sched::PipelineShape> shapes;
  for (const BenchSample& sample : result.samples) shapes.push_back(sample.shape);
  if (shapes.empty()) return result.after.shape;
  const auto middle = shapes.begin() + static_cast<std::ptrdiff_t>(shapes.size() / 2);
  std::nth_element(shapes.begin(), middle, shapes.end(),
                   [](const auto& a, const auto& b) { return a.groups < b.groups; });
  return *middle;
}

Rows rows_of(const BenchReport& report) {
  const load::Summary& summary = report.summary;
  const sched::SchedulerStats work = work_of(report.result);
  const sched::PipelineShape shape = usual_shape(report.result);
  Rows rows;
  rows.emplace_back("requests",
                    fmt::format("{} done, {} cancelled, {} refused in {:.1f} s", summary.done,
                                summary.cancelled, summary.refused, summary.seconds));
  rows.emplace_back("output",
                    fmt::format("{:.1f} tokens/s, {:.2f} requests/s; with prompts {:.1f} "
                                "tokens/s",
                                summary.output_tokens_per_second(), summary.requests_per_second(),
                                summary.tokens_per_second()));
  rows.emplace_back("TTFT", in_ms(summary.ttft_ms));
  rows.emplace_back("time per output token", in_ms(summary.tpot_ms));
  rows.emplace_back("goodput",
                    fmt::format("{:.2f} requests/s ({} of {}; TTFT {}, per token {})",
                                summary.good_per_second(), summary.good, summary.done,
                                target(report.targets.ttft_ms), target(report.targets.tpot_ms)));
  rows.emplace_back("stages computing", in_per_cent(report.result.stage_use));
  rows.emplace_back("pipeline", fmt::format("{} groups most of the time, steps of at most {} rows",
                                            shape.groups, shape.step_tokens));
  rows.emplace_back("prefix reuse",
                    fmt::format("{} of {} prompt tokens", work.reused_tokens, work.prompt_tokens));
  rows.emplace_back("preemptions", std::to_string(work.preemptions));
  rows.emplace_back("drafts",
                    fmt::format("{} of {} accepted", work.accepted_drafts, work.drafted_tokens));
  rows.emplace_back(
      "rows", fmt::format("{} computed, {} for nothing", work.planned_rows, work.wasted_rows));
  rows.emplace_back("KV blocks",
                    fmt::format("{} of {} free at the end",
                                report.result.after.scheduler.available_blocks, report.kv_blocks));
  rows.emplace_back("memory of the stages",
                    fmt::format("{} before, {} after", human_bytes(report.resident_before),
                                human_bytes(report.resident_after)));
  return rows;
}

std::vector<load::Plot> plots_of(const BenchReport& report) {
  std::vector<double> ttft;
  std::vector<double> tpot;
  for (const load::RequestRecord& record : report.result.records) {
    if (record.outcome != load::Outcome::kDone) continue;
    ttft.push_back(record.ttft_ms());
    if (record.output_tokens > 1) tpot.push_back(record.tpot_ms());
  }
  load::Series rate{"output", {}};
  load::Series running{"running", {}};
  load::Series waiting{"waiting", {}};
  std::vector<load::Series> use;
  for (std::size_t stage = 0; stage < report.result.stage_use.size(); ++stage) {
    use.push_back({fmt::format("stage {}", stage), {}});
  }
  BenchSample before;
  for (const BenchSample& sample : report.result.samples) {
    const double time = sample.seconds - before.seconds;
    if (time > 0) {
      const auto tokens = static_cast<double>(sample.output_tokens - before.output_tokens);
      rate.points.emplace_back(sample.seconds, tokens / time);
    }
    running.points.emplace_back(sample.seconds, static_cast<double>(sample.running));
    waiting.points.emplace_back(sample.seconds, static_cast<double>(sample.waiting));
    for (std::size_t stage = 0; stage < sample.stage_use.size() && stage < use.size(); ++stage) {
      use[stage].points.emplace_back(sample.seconds, 100 * sample.stage_use[stage]);
    }
    before = sample;
  }
  load::Series memory{"", {}};
  for (const auto& [time, bytes] : report.result.resident_bytes) {
    memory.points.emplace_back(time, static_cast<double>(bytes) / (1 << 20));
  }
  return {{"Time to first token", "ms", "% of requests", {load::cumulative("", ttft)}},
          {"Time per output token", "ms", "% of requests", {load::cumulative("", tpot)}},
          {"Throughput", "s", "tokens/s", {rate}},
          {"Requests", "s", "sequences", {running, waiting}},
          {"Stages computing", "s", "% of the time", use},
          {"Memory of the stages", "s", "MiB", {memory}}};
}

}  // namespace

std::string bench_table(const BenchReport& report) {
  std::string text = report.title + "\n";
  for (const auto& [name, value] : rows_of(report)) text += fmt::format("{:<22} {}\n", name, value);
  return text;
}

nlohmann::json bench_json(const BenchReport& report) {
  const load::Summary& summary = report.summary;
  const sched::SchedulerStats work = work_of(report.result);
  const sched::PipelineShape shape = usual_shape(report.result);
  return {{"title", report.title},
          {"done", summary.done},
          {"cancelled", summary.cancelled},
          {"refused", summary.refused},
          {"seconds", summary.seconds},
          {"output_tokens", summary.output_tokens},
          {"prompt_tokens", summary.prompt_tokens},
          {"output_tokens_per_second", summary.output_tokens_per_second()},
          {"tokens_per_second", summary.tokens_per_second()},
          {"steady_tokens_per_second", load::steady_tokens_per_second(report.result.records)},
          {"requests_per_second", summary.requests_per_second()},
          {"good", summary.good},
          {"goodput", summary.good_per_second()},
          {"targets_ms", {{"ttft", report.targets.ttft_ms}, {"tpot", report.targets.tpot_ms}}},
          {"ttft_ms", to_json(summary.ttft_ms)},
          {"tpot_ms", to_json(summary.tpot_ms)},
          {"stage_use", report.result.stage_use},
          {"groups", shape.groups},
          {"step_tokens", shape.step_tokens},
          {"prefix_tokens", work.prompt_tokens},
          {"reused_tokens", work.reused_tokens},
          {"preemptions", work.preemptions},
          {"drafted_tokens", work.drafted_tokens},
          {"accepted_drafts", work.accepted_drafts},
          {"planned_rows", work.planned_rows},
          {"wasted_rows", work.wasted_rows},
          {"kv_blocks", report.kv_blocks},
          {"free_kv_blocks", report.result.after.scheduler.available_blocks},
          {"resident_bytes_before", report.resident_before},
          {"resident_bytes_after", report.resident_after},
          {"resident_bytes", report.result.resident_bytes},
          {"chain", report.chain}};
}

std::string bench_html(const BenchReport& report) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>paceline bench</title>\n"
      "<style>body{font:14px sans-serif;margin:2em;max-width:75em}td{padding:2px 16px 2px 0;"
      "vertical-align:top}svg{margin:0 16px 16px 0}</style>\n";
  html += fmt::format("<h1>paceline bench</h1><p>{}</p>\n<table>\n", escape_html(report.title));
  for (const auto& [name, value] : rows_of(report)) {
    html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(name), escape_html(value));
  }
  html += "</table>\n";
  for (const load::Plot& plot : plots_of(report)) html += load::to_svg(plot);
  return html + "</html>\n";
}

}  // namespace paceline::cli
