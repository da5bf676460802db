// Builds the model of a planned stage: clones of the stage's nodes, nothing of the source changed.
#pragma once

#include <memory>

#include "base/error.h"
#include "cut/graph.h"
#include "cut/layer_map.h"
#include "cut/stage_plan.h"

namespace paceline::cut {

/// Clones share the data of Constants with the source; each stage has Variables of its own.
/// Names, rt_info of nodes and of the model are kept. Inputs: the boundary first, then those
/// that the stage uses, in the source's order.
Result<std::shared_ptr<ov::Model>> build_stage(const Graph& graph, const LayerMap& map,
                                               const StagePlan& plan);

}  // namespace paceline::cut
