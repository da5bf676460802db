// Which node of one layer plays the part of a node of another.
//
// Decoder layers are copies of one another: walking both backwards from their outputs and their
// Assigns, input by input, pairs each node with its twin. Where the layers differ (a dense and an
// expert layer) the walk stops and the rest is still paired.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "cut/graph.h"
#include "cut/layer_map.h"

namespace paceline::cut {

/// From nodes of layer `from` to their twins in layer `to`; twins have the same type, the same
/// number of inputs and equal partial shapes. The input of `from` is paired with the input of `to`.
std::unordered_map<NodeId, NodeId> pair_layers(const Graph& graph, const LayerMap& map,
                                               std::uint32_t from, std::uint32_t to);

}  // namespace paceline::cut
