// A compiled stage's inputs and outputs in the words of stage_engine.h, and batches held against
// them. For all engines alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <openvino/runtime/compiled_model.hpp>
#include <openvino/runtime/tensor.hpp>

#include "base/error.h"
#include "base/ids.h"
#include "engine/stage_engine.h"

namespace paceline::engine {

/// What the ports tell: layers, place, boundary tensors and vocabulary. kUnimplemented for a
/// boundary that cannot travel.
Result<StageInfo> stage_info(const ov::CompiledModel& model, LayerRange layers);

/// The place of kFinalRowsOutput among the outputs; none where the stage has none that it can tell
/// in f32 with a known width.
std::optional<std::size_t> final_rows_port(const ov::CompiledModel& model);

/// Rows of f32 or bf16 as f32, appended to `to`; `is_wanted` (empty: all are) says which.
void append_final_rows(const ov::Tensor& tensor, std::uint64_t width,
                       const std::vector<bool>& is_wanted, std::vector<float>& to);

/// Tokens of a first stage, bytes of boundary tensors of the others: as many as the batch has rows,
/// and ids below `embedding_rows` (0: not known). kInvalidArgument.
Status check_sizes(const StageInfo& info, std::uint64_t embedding_rows, const StageBatch& batch);

}  // namespace paceline::engine
