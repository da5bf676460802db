// From an assignment to a running engine: find the package, check its bytes and the memory, load.
#pragma once

#include <filesystem>
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

struct LoaderOptions {
  std::uint32_t threads = 0;    ///< where an assignment leaves the number open
  std::filesystem::path forms;  ///< the cache of compiled stages; none where it is not there
};

/// The product's loader: the assignment's engine on CPU, the stateful one imported from the cache
/// where it can be. `store` must outlive it. Errors name the package's damaged part,
/// or, where memory does not suffice, what is needed and what is free.
StageLoader make_stage_loader(const PackageStore& store, const LoaderOptions& options);

}  // namespace paceline::worker
