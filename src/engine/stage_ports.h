// A compiled stage's inputs and outputs in the words of stage_engine.h, and batches held against
// them. For all engines alike.
#pragma once

#include <cstdint>

#include <openvino/runtime/compiled_model.hpp>

#include "base/error.h"
#include "base/ids.h"
#include "engine/stage_engine.h"

namespace paceline::engine {

/// What the ports tell: layers, place, boundary tensors and vocabulary. kUnimplemented for a
/// boundary that cannot travel.
Result<StageInfo> stage_info(const ov::CompiledModel& model, LayerRange layers);

/// Tokens of a first stage, bytes of boundary tensors of the others: as many as the batch has rows,
/// and ids below `embedding_rows` (0: not known). kInvalidArgument.
Status check_sizes(const StageInfo& info, std::uint64_t embedding_rows, const StageBatch& batch);

}  // namespace paceline::engine
