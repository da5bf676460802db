#include "cut/layer_pairing.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::cut {
namespace {

using Twins = std::unordered_map<NodeId, NodeId>;

/// Where a layer ends. The last layer has no next one to tell: it is as many cuts long as `like`.
std::optional<Port> output_of(const LayerMap& map, std::uint32_t layer, std::uint32_t like) {
  if (layer + 1 < map.layers.size()) return map.layers[layer + 1].input;
  if (like + 1 >= map.layers.size()) return std::nullopt;
  const std::size_t cut = map.layers[layer].cut + (map.layers[like + 1].cut - map.layers[like].cut);
  return cut < map.cuts.size() ? std::optional(map.cuts[cut]) : std::nullopt;
}

bool alike(const Graph& graph, NodeId a, NodeId b) {
  const ov::Node& x = *graph.node(a);
  const ov::Node& y = *graph.node(b);
  if (x.get_type_info() != y.get_type_info() || x.get_input_size() != y.get_input_size() ||
      x.get_output_size() != y.get_output_size()) {
    return false;
  }
  for (std::size_t output = 0; output < x.get_output_size(); ++output) {
    if (x.get_output_partial_shape(output) != y.get_output_partial_shape(output)) return false;
  }
  return true;
}

/// Pairs backwards from `start` until the layers' inputs, what both share, or a difference.
void pair_backwards(const Graph& graph, std::pair<NodeId, NodeId> start, NodeId input_b,
                    Twins& twins) {
  std::vector<std::pair<NodeId, NodeId>> open = {start};
  while (!open.empty()) {
    const auto [a, b] = open.back();
    open.pop_back();
    if (a == b || b == input_b || twins.contains(a) || !alike(graph, a, b)) continue;
    twins.emplace(a, b);
    const auto inputs_a = graph.inputs(a);
    const auto inputs_b = graph.inputs(b);
    for (std::size_t input = 0; input < inputs_a.size(); ++input) {
      if (inputs_a[input].output != inputs_b[input].output) continue;
      open.emplace_back(inputs_a[input].node, inputs_b[input].node);
    }
  }
}

}  // namespace

Twins pair_layers(const Graph& graph, const LayerMap& map, std::uint32_t from, std::uint32_t to) {
  const Layer& a = map.layers[from];
  const Layer& b = map.layers[to];
  Twins twins = {{a.input.node, b.input.node}};
  const auto end_a = output_of(map, from, to);
  const auto end_b = output_of(map, to, from);
  if (end_a && end_b) pair_backwards(graph, {end_a->node, end_b->node}, b.input.node, twins);
  const std::size_t assigns = a.assigns.size() == b.assigns.size() ? a.assigns.size() : 0;
  for (std::size_t i = 0; i < assigns; ++i) {
    pair_backwards(graph, {a.assigns[i], b.assigns[i]}, b.input.node, twins);
  }
  return twins;
}

}  // namespace paceline::cut
