// From an assignment to a running engine: find the package, check its bytes and the memory, load.
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "engine/stage_engine.h"
#include "wire/messages.h"
#include "worker/package_store.h"

namespace paceline::worker {

/// Makes the engine of an assignment. An interface, so that tests need no device.
using StageLoader =
    std::function<Result<std::unique_ptr<engine::StageEngine>>(const wire::AssignStage&)>;

/// The product's loader: the paged engine on CPU. `store` must outlive it. `default_threads` is
/// used where an assignment leaves the number open. Errors name the package's damaged part, or,
/// where memory does not suffice, what is needed and what is free.
StageLoader make_stage_loader(const PackageStore& store, std::uint32_t default_threads);

}  // namespace paceline::worker
