// What is counted of one HTTP request's answers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "coordinator/generation.h"
#include "obs/metrics.h"

namespace paceline::serve {

/// Thread-compatible. Without metrics (nullptr) nothing is counted; they must outlive it.
class RequestMeter {
 public:
  RequestMeter(obs::ModelMetrics* metrics, std::size_t answers, TimePoint begin)
      : metrics_(metrics), begin_(begin), last_tokens_(answers) {}

  /// New tokens of an answer; several came in one step.
  void add_tokens(std::size_t answer, std::size_t count, TimePoint now);
  /// `is_first`: of the answers to its prompt, whose tokens count once.
  void finish(const coordinator::Generation& generation, bool is_first, TimePoint now);
  /// Answers that the chain's failure ended.
  void fail(std::size_t answers, TimePoint now);

 private:
  obs::ModelMetrics* metrics_;
  TimePoint begin_;
  std::vector<std::optional<TimePoint>> last_tokens_;  ///< of each answer
};

}  // namespace paceline::serve
