// A step in two parts: what every stage needs, and what the last one alone does (docs/wire.md,
// "StepSampling"). Pure.
#pragma once

#include "base/error.h"
#include "wire/messages.h"

namespace paceline::wire {

/// Takes what only the last stage needs out of a whole step, which is `sampled_apart` from then on.
StepSampling split_sampling(Step& step);

/// Makes the step whole again. kInvalidArgument where the parts are not of one step, or the rows to
/// be sampled are not the step's; the step is of no use then.
Status join_sampling(Step& step, StepSampling sampling);

}  // namespace paceline::wire
