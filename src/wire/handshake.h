// The comparison that two neighbouring stages make before the first step.
#pragma once

#include "base/error.h"
#include "wire/messages.h"

namespace paceline::wire {

/// kFailedPrecondition naming the first field that differs, the peer's value (`offered`) and this
/// stage's (`own`); in the order of docs/wire.md. Also refuses layers that do not meet.
Status compare_links(const LinkStage& offered, const LinkStage& own);

}  // namespace paceline::wire
