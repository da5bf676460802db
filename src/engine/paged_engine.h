// The paged engine: a stateful stage, turned into PagedAttention form at load, on the CPU plugin.
//
// Why at load: a PagedAttention blob cannot be imported and a saved one not read back, so the
// package holds the stateful form and the pass takes a tenth of a second.
// What it is not: a scheduler. Blocks, copies and rows come with each batch.
#pragma once

#include <memory>

#include <openvino/core/model.hpp>

#include "engine/stage_engine.h"

namespace paceline::engine {

/// Reads the package's IR, cuts `options.layers`, and compiles them.
/// Only the constants of these layers are read. Errors: those of reading and cutting;
/// kInternal with the plugin's words where compiling fails.
Result<std::unique_ptr<StageEngine>> load_paged_engine(const StageOptions& options);

/// The same for a model that is in memory already; options.package is not used.
Result<std::unique_ptr<StageEngine>> make_paged_engine(std::shared_ptr<const ov::Model> decoder,
                                                       const StageOptions& options);

}  // namespace paceline::engine
