// What runs steps: a chain of workers, or a fake in tests.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "wire/messages.h"

namespace paceline::coordinator {

/// Steps are executed in the order of submission; each gives one result, in the same order.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Sends a step on its way; does not wait for it.
  virtual Result<StepId> submit(wire::Step step) = 0;
  /// Waits for the result of `step`; none where wake() was called instead. A failed step, a lost
  /// worker or the deadline is an Error.
  virtual Result<std::optional<wire::StepResult>> await(StepId step, Deadline deadline) = 0;
  /// Ends an await() under way, or else the next one. Any thread.
  virtual void wake() = 0;
  /// Why it runs nothing more, also where nobody awaits anything. Any thread.
  virtual std::optional<Error> failure() const { return std::nullopt; }
};

}  // namespace paceline::coordinator
