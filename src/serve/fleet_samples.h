// A model's last minutes, a sample a second. Pure; what it takes for a page's plots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "api/fields.h"
#include "obs/activity.h"

namespace paceline::serve {

struct FleetSample {
  std::uint64_t number = 0;  ///< from 1, the same for all models
  std::int64_t unix_seconds = 0;
  double tokens_per_s = 0;  ///< generated
  double prompt_tokens_per_s = 0;
  std::size_t running = 0;
  std::size_t waiting = 0;
  double kv_use = 0;  ///< 0 to 1
  std::optional<obs::TimeSpread> first_token{};
  std::optional<obs::TimeSpread> next_token{};
  std::vector<double> stage_use{};  ///< 0 to 1
};

/// Thread-compatible; keeps the last ones.
class FleetSamples {
 public:
  explicit FleetSamples(std::size_t kept) : kept_(kept) {}

  void add(FleetSample sample);
  /// Those with a higher number as columns: {"number": [...], "tokens_per_s": [...], ...}. What was
  /// not measured is null; "stage_use" has a column for each stage of the last sample.
  api::Json columns_after(std::uint64_t number) const;
  bool empty() const { return samples_.empty(); }

 private:
  const std::size_t kept_;
  std::deque<FleetSample> samples_;
};

}  // namespace paceline::serve
