// A planned step in the words of the wire.
#pragma once

#include <functional>
#include <map>

#include "base/error.h"
#include "sched/step_plan.h"
#include "wire/messages.h"

namespace paceline::coordinator {

/// Planned steps that may still be referred to, by the chain's numbers.
using StepNumbers = std::map<StepId, StepId>;
/// How an opened sequence samples.
using SpecOf = std::function<wire::SequenceSpec(const sched::OpenedSequence&)>;

/// `numbers` must have every step that a token refers to.
wire::Step translate(const sched::StepPlan& plan, const StepNumbers& numbers,
                     const SpecOf& spec_of);

}  // namespace paceline::coordinator
