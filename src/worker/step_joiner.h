// Joins the two parts of a last stage's steps: rows that come along the chain, and how they are
// sampled, straight from the coordinator (docs/wire.md, "StepSampling").
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "wire/messages.h"

namespace paceline::worker {

/// A step that is whole, or why it never will be.
struct JoinedStep {
  wire::Frame frame;
  TimePoint received;  ///< its rows
  std::optional<Error> failure = {};
};

/// Both parts come with rising numbers, which its user sees to. Thread-compatible.
class StepJoiner {
 public:
  static constexpr std::size_t kMaxWaiting = 1024;  ///< of either part
  /// The sampling was sent before the rows set out.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  /// What can be executed now, or has failed, in order. kFailedPrecondition: a step that brings its
  /// own sampling, in a chain where it comes apart. kResourceExhausted: too many wait.
  Result<std::vector<JoinedStep>> add_step(wire::Frame frame, TimePoint now);
  Result<std::vector<JoinedStep>> add_sampling(StepId step, wire::StepSampling sampling);

  /// Fails the steps that have waited for too long.
  std::vector<JoinedStep> expire(TimePoint now);

 private:
  std::vector<JoinedStep> match();

  bool is_apart_ = false;  ///< once anything came apart
  std::deque<JoinedStep> steps_;
  std::deque<std::pair<StepId, wire::StepSampling>> samplings_;
};

}  // namespace paceline::worker
