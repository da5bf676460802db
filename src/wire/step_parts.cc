#include "wire/step_parts.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "wire/step_checks.h"

namespace paceline::wire {
namespace {

Status same_opened(const std::vector<SequenceSpec>& step,
                   const std::vector<SequenceSpec>& sampling) {
  const bool is_same = std::equal(
      step.begin(), step.end(), sampling.begin(), sampling.end(),
      [](const SequenceSpec& a, const SequenceSpec& b) { return a.sequence == b.sequence; });
  if (is_same) return {};
  return fail(ErrorCode::kInvalidArgument,
              "step_sampling.opened: {} sequences, expected the {} that the step opens",
              sampling.size(), step.size());
}

}  // namespace

StepSampling split_sampling(Step& step) {
  StepSampling sampling;
  for (StepSequence& sequence : step.sequences) {
    if (sequence.sampled_rows.empty() && sequence.drafts.empty()) continue;
    sampling.sequences.push_back({sequence.sequence, std::exchange(sequence.sampled_rows, {}),
                                  std::exchange(sequence.drafts, {})});
  }
  for (SequenceSpec& spec : step.opened) {
    SequenceSpec number_only;
    number_only.sequence = spec.sequence;
    sampling.opened.push_back(std::exchange(spec, std::move(number_only)));
  }
  step.sampled_apart = true;
  return sampling;
}

Status join_sampling(Step& step, StepSampling sampling) {
  PACELINE_RETURN_IF_ERROR(same_opened(step.opened, sampling.opened));
  auto next = step.sequences.begin();
  for (SequenceSampling& part : sampling.sequences) {
    next = std::find_if(next, step.sequences.end(), [&part](const StepSequence& sequence) {
      return sequence.sequence == part.sequence;
    });
    if (next == step.sequences.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "step_sampling.sequences: {}, expected those of the step, in its order",
                  part.sequence.value());
    }
    next->sampled_rows = std::move(part.sampled_rows);
    next->drafts = std::move(part.drafts);
    PACELINE_RETURN_IF_ERROR(check_sampled_rows(*next));
    ++next;
  }
  step.opened = std::move(sampling.opened);
  step.sampled_apart = false;
  return {};
}

}  // namespace paceline::wire
