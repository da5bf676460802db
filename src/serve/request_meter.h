// What is counted of one HTTP request's answers.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/generation.h"
#include "obs/activity.h"
#include "obs/metrics.h"
#include "obs/request_log.h"

namespace paceline::serve {

/// Where it is counted; null: not there. They must outlive the meter.
struct Meters {
  obs::ModelMetrics* metrics = nullptr;
  obs::Activity* activity = nullptr;
  obs::RequestLog* log = nullptr;
};

/// Thread-compatible.
class RequestMeter {
 public:
  /// `request`: what the log is to say of it beside times, counts and its end.
  RequestMeter(const Meters& meters, std::size_t answers, TimePoint begin,
               obs::RequestRecord request = {})
      : meters_(meters), begin_(begin), last_tokens_(answers), request_(std::move(request)) {}

  /// New tokens of an answer; several came in one step.
  void add_tokens(std::size_t answer, std::size_t count, TimePoint now);
  /// `is_first`: of the answers to its prompt, whose tokens count once.
  void finish(const coordinator::Generation& generation, bool is_first, TimePoint now);
  /// Answers that the chain's failure ended.
  void fail(std::size_t answers, TimePoint now);
  /// Answers that nobody was asked for, since the request has ended: as the last one did.
  void abandon(std::size_t answers, TimePoint now);

 private:
  void count_prompt(const coordinator::Generation& generation);
  void end(std::size_t answers, std::string_view reason, TimePoint now);

  const Meters meters_;
  const TimePoint begin_;
  std::vector<std::optional<TimePoint>> last_tokens_;  ///< of each answer
  std::size_t ended_ = 0;
  obs::RequestRecord request_;  ///< logged with its last answer
};

}  // namespace paceline::serve
