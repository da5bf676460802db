#include "wire/epoch_guard.h"

#include <string>

namespace paceline::wire {
namespace {

std::string sentence(Refusal refusal, const Address& got, const Address& own) {
  switch (refusal) {
    case Refusal::kOtherChain:
      return fmt::format("chain: {}, but this stage belongs to chain {}", got.chain.value(),
                         own.chain.value());
    case Refusal::kOtherStage:
      return fmt::format("stage: {}, but this is stage {} of chain {}", got.stage.value(),
                         own.stage.value(), own.chain.value());
    case Refusal::kOldEpoch:
      return fmt::format("epoch: {} is over, now is {}", got.epoch.value(), own.epoch.value());
    case Refusal::kNewEpoch:
      return fmt::format("epoch: {}, but this stage was assigned in {}", got.epoch.value(),
                         own.epoch.value());
    case Refusal::kOldStep:
      return fmt::format("step: {}, expected one after {}", got.step.value(), own.step.value());
  }
  return "address";
}

}  // namespace

bool is_late(Refusal refusal) {
  return refusal == Refusal::kOldEpoch || refusal == Refusal::kOldStep;
}

std::optional<Refusal> EpochGuard::check(const Address& address) const {
  if (address.chain != accepted_.chain) return Refusal::kOtherChain;
  if (address.epoch < accepted_.epoch) return Refusal::kOldEpoch;
  if (address.epoch > accepted_.epoch) return Refusal::kNewEpoch;
  if (address.stage != accepted_.stage) return Refusal::kOtherStage;
  if (address.step <= accepted_.step) return Refusal::kOldStep;
  return std::nullopt;
}

Status EpochGuard::admit(const Address& address) {
  const auto refusal = check(address);
  if (!refusal) {
    accepted_.step = address.step;
    return {};
  }
  return fail(is_late(*refusal) ? ErrorCode::kAborted : ErrorCode::kFailedPrecondition, "{}",
              sentence(*refusal, address, accepted_));
}

}  // namespace paceline::wire
