// What the scheduler is asked to do.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace paceline::sched {

using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;

/// How the tokens are chosen is not the scheduler's: it plans rows and learns what was sampled.
struct Request {
  RequestId id;
  std::vector<std::int64_t> prompt;
  std::uint32_t max_tokens = 256;
  std::uint32_t choices = 1;  ///< answers to the prompt, which is computed once
  /// Higher goes first: one level is worth SchedulerOptions::priority_step of waiting.
  std::int32_t priority = 0;
  TimePoint arrival;
  std::vector<std::int64_t> end_tokens;  ///< none: only max_tokens ends an answer
  std::string
      cache_salt;  ///< what else the KV depends on, and whose it is: tenant, adapter, images
  bool samples_prompt =
      false;  ///< prompt log-probabilities: every prompt row is computed and sampled
  /// Something is summed over its prompt's rows: all are computed, in order, from 0, whatever is
  /// cached, and once more after a preemption. It ends with its prompt: one choice, max_tokens 1.
  bool sums_prompt = false;
  /// It takes the place of another that has ended: however many wait, it is not too many.
  bool keeps_place = false;
  bool has_history = false;  ///< the known tokens travel with its opening
};

/// One of a request's answers.
struct ChoiceKey {
  RequestId request;
  std::uint32_t choice = 0;
  friend auto operator<=>(const ChoiceKey&, const ChoiceKey&) = default;
};

enum class FinishReason : std::uint8_t { kEndToken, kLength };

/// What a step brought one answer.
struct Progress {
  ChoiceKey key;
  std::vector<std::int64_t> tokens;  ///< one or more
  std::size_t first_sample = 0;      ///< the step's sample that tokens[0] is; the others follow it
  bool is_finished = false;          ///< the scheduler knows the answer no more
  FinishReason reason = FinishReason::kLength;  ///< where it is finished
};

}  // namespace paceline::sched
