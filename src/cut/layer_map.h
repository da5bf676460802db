// Where a decoder's layers lie in its graph, found from the graph alone.
//
// The trunk is what carries token data from the ids (or embeddings) to the logits; edges into
// ShapeOf carry no data and are not followed. A cut is a trunk output that no other trunk edge
// jumps over: everything behind it depends on that one tensor. Each state enters the trunk
// somewhere; a stretch between cuts where states enter is a layer, and the last cut before it is
// its input. Rejected: reading layer numbers from names of nodes or variables (not unique, not in
// every IR).
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "cut/graph.h"

namespace paceline::cut {

struct Layer {
  Port input;                   ///< the tensor that carries everything from the layers before
  std::uint32_t cut = 0;        ///< the place of input in LayerMap::cuts
  std::vector<NodeId> reads;    ///< its ReadValue nodes, by variable id
  std::vector<NodeId> assigns;  ///< its Assign nodes, by variable id
  std::uint32_t attentions = 0;
};

inline constexpr std::int32_t kNoLayer = -1;

struct LayerMap {
  NodeId root = 0;    ///< the Parameter of token ids or embeddings
  NodeId result = 0;  ///< the logits
  std::vector<Port> cuts;
  std::vector<Layer> layers;
  /// What the vocabulary projection reads: the last cut of a boundary's shape (after the final
  /// norm).
  Port head_input;
  /// By node: the layer that computes it (the last one whose data it uses), or kNoLayer.
  std::vector<std::int32_t> layer_of;
};

/// Fails where the graph is not a stateful decoder with one output, or its layers do not separate:
/// kInvalidArgument or kUnimplemented with what was found.
Result<LayerMap> find_layers(const Graph& graph);

}  // namespace paceline::cut
