// Prometheus' text format, read: what a server's /metrics says. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::obs {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

/// Histograms come as the samples they are made of (NAME_bucket, NAME_sum, NAME_count). Timestamps
/// and comments are left out. kInvalidArgument names the line: the bytes are somebody else's.
class MetricsText {
 public:
  static constexpr std::size_t kMaxSamples = 200000;
  static constexpr std::size_t kMaxLabels = 64;

  static Result<MetricsText> parse(std::string_view text);

  const std::vector<MetricSample>& samples() const { return samples_; }
  /// Of all samples of that name with (at least) these labels; 0 where there are none.
  double sum(std::string_view name, const std::map<std::string, std::string>& labels) const;
  /// The values that a label has on samples of that name with these labels, each once, in order.
  std::vector<std::string> values_of(std::string_view label, std::string_view name,
                                     const std::map<std::string, std::string>& labels) const;

 private:
  std::vector<MetricSample> samples_;
};

}  // namespace paceline::obs
