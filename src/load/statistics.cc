#include "load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline::load {
namespace {

bool is_good(const RequestRecord& record, const Targets& targets) {
  return (targets.ttft_ms == 0 || record.ttft_ms() <= targets.ttft_ms) &&
         (targets.tpot_ms == 0 || record.tpot_ms() <= targets.tpot_ms);
}

double per_second(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

}  // namespace

double RequestRecord::ttft_ms() const { return to_milliseconds(first_token - arrival); }

double RequestRecord::tpot_ms() const {
  return output_tokens < 2 ? 0 : to_milliseconds(last_token - first_token) / (output_tokens - 1);
}

double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

Distribution describe(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  result.p50 = quantile(values, 0.5);
  result.p90 = quantile(values, 0.9);
  result.p99 = quantile(values, 0.99);
  result.most = values.back();
  return result;
}

double Summary::requests_per_second() const {
  return per_second(static_cast<double>(done), seconds);
}
double Summary::good_per_second() const { return per_second(static_cast<double>(good), seconds); }
double Summary::output_tokens_per_second() const {
  return per_second(static_cast<double>(output_tokens), seconds);
}
double Summary::tokens_per_second() const {
  return per_second(static_cast<double>(prompt_tokens + output_tokens), seconds);
}

Summary summarize(std::span<const RequestRecord> records, const Targets& targets) {
  Summary summary;
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
  Duration end = {};
  for (const RequestRecord& record : records) {
    if (record.outcome == Outcome::kRefused) {
      ++summary.refused;
      continue;
    }
    summary.output_tokens += record.output_tokens;
    if (record.output_tokens > 0) {
      summary.prompt_tokens += record.prompt_tokens;
      summary.reused_tokens += record.reused_tokens;
      end = std::max(end, record.last_token);
    }
    if (record.outcome == Outcome::kCancelled) {
      ++summary.cancelled;
      continue;
    }
    ++summary.done;
    summary.good += is_good(record, targets) ? 1 : 0;
    ttft_ms.push_back(record.ttft_ms());
    if (record.output_tokens > 1) tpot_ms.push_back(record.tpot_ms());
  }
  summary.seconds = to_seconds(end);
  summary.ttft_ms = describe(std::move(ttft_ms));
  summary.tpot_ms = describe(std::move(tpot_ms));
  return summary;
}

double steady_tokens_per_second(std::span<const RequestRecord> records) {
  Duration begin = {};
  Duration end = Duration::max();
  for (const RequestRecord& record : records) {
    if (record.outcome != Outcome::kDone || record.token_times.empty()) return 0;
    begin = std::max(begin, record.token_times.front());
    end = std::min(end, record.token_times.back());
  }
  double rate = 0;
  for (const RequestRecord& record : records) {
    const std::vector<Duration>& times = record.token_times;
    const auto first = std::lower_bound(times.begin(), times.end(), begin);
    const auto past = std::upper_bound(first, times.end(), end);
    if (first == past || *first == *std::prev(past)) return 0;
    // Several tokens may come at once; those at the begin were computed before it.
    const auto later = std::upper_bound(first, past, *first);
    rate += static_cast<double>(past - later) / to_seconds(*std::prev(past) - *first);
  }
  return rate;
}

}  // namespace paceline::load
