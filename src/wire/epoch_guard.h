// Which steps a stage takes: those of its chain, epoch and place, each number once and rising.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "wire/messages.h"

namespace paceline::wire {

enum class Refusal : std::uint8_t {
  kOtherChain,
  kOtherStage,
  kOldEpoch,  ///< late
  kNewEpoch,  ///< this stage was not assigned in it
  kOldStep,   ///< late or repeated
};

/// Whether a refused frame is only late rather than a fault of the peer; the error's code says so.
bool is_late(Refusal refusal);

/// One per assigned stage; a worker that stands in a route twice has two. Thread-compatible.
class EpochGuard {
 public:
  /// `assigned`: chain, epoch and stage of the AssignStage frame; steps above its step are taken.
  explicit EpochGuard(const Address& assigned) : accepted_(assigned) {}

  /// Why a frame would be refused; nullopt: it would be accepted. Changes nothing.
  std::optional<Refusal> check(const Address& address) const;
  /// Accepts the step, or says in one sentence why not: kAborted where it is_late(), else
  /// kFailedPrecondition. A refused frame changes nothing.
  Status admit(const Address& address);

  /// The assignment, with the last step accepted.
  const Address& last_accepted() const { return accepted_; }

 private:
  Address accepted_;
};

}  // namespace paceline::wire
