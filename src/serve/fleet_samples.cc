#include "serve/fleet_samples.h"

#include <cmath>
#include <utility>

namespace paceline::serve {
namespace {

using api::Json;

/// Three digits behind the point are more than a plot shows.
double rounded(double value) { return std::round(value * 1000) / 1000; }

void add_spread(Json& columns, const char* name, const std::optional<obs::TimeSpread>& spread) {
  Json& column = columns[name];
  column["median_ms"].push_back(spread ? Json(rounded(to_milliseconds(spread->median))) : Json());
  column["high_ms"].push_back(spread ? Json(rounded(to_milliseconds(spread->high))) : Json());
}

Json empty_columns(std::size_t stages) {
  const Json spread = {{"median_ms", Json::array()}, {"high_ms", Json::array()}};
  Json columns;
  for (const char* name :
       {"number", "time", "tokens_per_s", "prompt_tokens_per_s", "running", "waiting", "kv_use"}) {
    columns[name] = Json::array();
  }
  columns["first_token"] = spread;
  columns["next_token"] = spread;
  columns["stage_use"] = Json::array();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    columns["stage_use"].push_back(Json::array());
  }
  return columns;
}

}  // namespace

void FleetSamples::add(FleetSample sample) {
  samples_.push_back(std::move(sample));
  while (samples_.size() > kept_) samples_.pop_front();
}

Json FleetSamples::columns_after(std::uint64_t number) const {
  const std::size_t stages = samples_.empty() ? 0 : samples_.back().stage_use.size();
  Json columns = empty_columns(stages);
  for (const FleetSample& sample : samples_) {
    if (sample.number <= number) continue;
    columns["number"].push_back(sample.number);
    columns["time"].push_back(sample.unix_seconds);
    columns["tokens_per_s"].push_back(rounded(sample.tokens_per_s));
    columns["prompt_tokens_per_s"].push_back(rounded(sample.prompt_tokens_per_s));
    columns["running"].push_back(sample.running);
    columns["waiting"].push_back(sample.waiting);
    columns["kv_use"].push_back(rounded(sample.kv_use));
    add_spread(columns, "first_token", sample.first_token);
    add_spread(columns, "next_token", sample.next_token);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const bool is_there = stage < sample.stage_use.size();
      columns["stage_use"][stage].push_back(is_there ? Json(rounded(sample.stage_use[stage]))
                                                     : Json());
    }
  }
  return columns;
}

}  // namespace paceline::serve
