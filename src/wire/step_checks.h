// The checks of what a step says of sampling, whether it comes in the step or apart. Internal to
// src/wire.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "base/error.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace paceline::wire {

inline constexpr std::int64_t kMaxToken = std::numeric_limits<std::int32_t>::max();

Status check_count(std::string_view what, std::uint64_t count, std::uint64_t most);
Status check_token(std::string_view what, std::int64_t token);

/// Sampled rows rise and are the sequence's, and drafts stand at its end.
Status check_sampled_rows(const StepSequence& sequence);
/// What a step may hold whose sampling comes apart: of that, nothing.
Status check_nothing_sampled(const Step& step);
Status check_opened(std::span<const SequenceSpec> opened, const Limits& limits);
/// As far as can be seen without the step's rows; join_sampling() sees the rest.
Status check_step_sampling(const StepSampling& sampling, const Limits& limits);

}  // namespace paceline::wire
