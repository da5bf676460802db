// What a stage consists of: the backward closure of its outputs, with foreign shapes repointed.
//
// Exporters reuse a shape wherever it is the same number, so layer 7 may ask for the length of
// layer 0's key tensor. Such a ShapeOf is given the stage's own tensor of that shape. Anything else
// that leads to another stage's data is an error: a stage never gets an input it does not need.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cut/graph.h"
#include "cut/layer_map.h"

namespace paceline::cut {

/// A part of the decoder between two cuts.
struct StageSpec {
  std::optional<Port> input;   ///< becomes the boundary input; none: the part begins at the root
  std::optional<Port> output;  ///< none: the part ends at the logits
  LayerRange layers;           ///< whose states the part owns
};

/// The stage of layers [range.begin, range.end), with embedding or head where it is at an end.
StageSpec stage_spec(const LayerMap& map, LayerRange range);

/// Another source for a ShapeOf.
struct ShapeSource {
  Port port;
  std::uint32_t leading_dimensions = 0;  ///< only so many are wanted; 0: all
  /// The shape is known: the ShapeOf becomes a Constant. Else asking for a weight's shape would
  /// bring the weight along.
  bool is_fixed = false;
};

struct StagePlan {
  StageSpec spec;
  std::unordered_map<NodeId, ShapeSource> shape_sources;  ///< by the ShapeOf that they replace in
  std::vector<NodeId> order;  ///< all nodes of the stage, inputs before users
};

/// kUnimplemented, naming the node, where the part needs data of another part than its input.
Result<StagePlan> plan_stage(const Graph& graph, const LayerMap& map, const StageSpec& spec);

}  // namespace paceline::cut
