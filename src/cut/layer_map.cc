#include "cut/layer_map.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace paceline::cut {
namespace {

constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

/// The nodes that carry token data to the logits.
struct Trunk {
  std::vector<NodeId> nodes;            ///< in topological order
  std::vector<std::uint32_t> position;  ///< by node: its place in nodes, or kNowhere
};

struct CutPlace {
  Port port;
  std::uint32_t position = 0;  ///< in the trunk
};

/// The nodes of one variable, and where its data enters the trunk.
struct State {
  std::vector<NodeId> reads;
  std::vector<NodeId> assigns;
  std::uint32_t position = kNowhere;
};

Result<NodeId> find_root(const Graph& graph) {
  for (const char* name : {"inputs_embeds", "input_ids"}) {
    for (const auto& parameter : graph.model()->get_parameters()) {
      if (parameter->get_friendly_name() == name ||
          parameter->output(0).get_names().count(name) != 0) {
        return graph.id_of(parameter.get());
      }
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "the model has no input input_ids or inputs_embeds: not a decoder");
}

Result<NodeId> find_result(const Graph& graph) {
  const auto& results = graph.model()->get_results();
  if (results.size() != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the model has {} outputs, expected one (the logits): not a plain decoder",
                results.size());
  }
  return graph.id_of(results[0].get());
}

Trunk find_trunk(const Graph& graph, NodeId root, NodeId result) {
  std::vector<bool> forward(graph.size(), false);
  forward[root] = true;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (forward[id] || graph.kind(id) == NodeKind::kShapeOf) continue;
    const auto inputs = graph.inputs(id);
    forward[id] =
        std::any_of(inputs.begin(), inputs.end(), [&](Port port) { return forward[port.node]; });
  }
  std::vector<bool> wanted(graph.size(), false);
  wanted[result] = forward[result];
  Trunk trunk;
  trunk.position.assign(graph.size(), kNowhere);
  for (NodeId id = graph.size(); id-- > 0;) {
    if (!wanted[id]) continue;
    trunk.nodes.push_back(id);
    for (const Port port : graph.inputs(id)) {
      if (forward[port.node]) wanted[port.node] = true;
    }
  }
  std::reverse(trunk.nodes.begin(), trunk.nodes.end());
  for (std::uint32_t place = 0; place < trunk.nodes.size(); ++place) {
    trunk.position[trunk.nodes[place]] = place;
  }
  return trunk;
}

/// Sweeps the trunk once: a node is a cut if the furthest edge from before it ends at it, and one
/// output of it alone is read.
std::vector<CutPlace> find_cuts(const Graph& graph, const Trunk& trunk) {
  std::vector<CutPlace> cuts;
  std::uint32_t reach = 0;
  for (std::uint32_t place = 0; place < trunk.nodes.size(); ++place) {
    const NodeId id = trunk.nodes[place];
    std::optional<std::uint32_t> output;
    bool one_output = true;
    std::uint32_t furthest = reach;
    for (const Use use : graph.users(id)) {
      const std::uint32_t user_place = trunk.position[use.user];
      if (user_place == kNowhere) continue;
      one_output = one_output && (!output || *output == use.output);
      output = use.output;
      furthest = std::max(furthest, user_place);
    }
    if (reach <= place && output && one_output) cuts.push_back({{id, *output}, place});
    reach = furthest;
  }
  return cuts;
}

/// The first place in the trunk that the data of a ReadValue reaches.
std::uint32_t entry_of(const Graph& graph, const Trunk& trunk, NodeId read,
                       std::vector<NodeId>& seen_by) {
  std::uint32_t first = kNowhere;
  std::vector<NodeId> open = {read};
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const Use use : graph.users(id)) {
      const NodeKind kind = graph.kind(use.user);
      if (kind == NodeKind::kShapeOf || kind == NodeKind::kAssign) continue;
      if (seen_by[use.user] == read) continue;
      seen_by[use.user] = read;
      if (trunk.position[use.user] == kNowhere) {
        open.push_back(use.user);
      } else {
        first = std::min(first, trunk.position[use.user]);
      }
    }
  }
  return first;
}

Result<std::map<std::string, State>> find_states(const Graph& graph, const Trunk& trunk) {
  std::map<std::string, State> states;
  std::vector<NodeId> seen_by(graph.size(), kNowhere);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) == NodeKind::kReadValue) {
      State& state = states[graph.variable_id(id)];
      state.reads.push_back(id);
      state.position = std::min(state.position, entry_of(graph, trunk, id, seen_by));
    } else if (graph.kind(id) == NodeKind::kAssign) {
      states[graph.variable_id(id)].assigns.push_back(id);
    }
  }
  if (states.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the model has no states (ReadValue): not a stateful decoder");
  }
  for (const auto& [variable, state] : states) {
    if (state.position == kNowhere) {
      return fail(ErrorCode::kUnimplemented, "the state {} does not reach the logits", variable);
    }
  }
  return states;
}

/// Gives each state to the last cut before its entry; the cuts that get some begin the layers.
Result<std::vector<Layer>> group_states(const std::vector<CutPlace>& cuts,
                                        const std::map<std::string, State>& states) {
  std::map<std::uint32_t, Layer> by_cut;
  for (const auto& [variable, state] : states) {
    const auto after = std::lower_bound(
        cuts.begin(), cuts.end(), state.position,
        [](const CutPlace& cut, std::uint32_t position) { return cut.position < position; });
    if (after == cuts.begin()) {
      return fail(ErrorCode::kUnimplemented,
                  "the state {} enters before any place where the graph can be cut", variable);
    }
    const auto cut = static_cast<std::uint32_t>(after - cuts.begin() - 1);
    Layer& layer = by_cut[cut];
    layer.cut = cut;
    layer.input = cuts[cut].port;
    layer.reads.insert(layer.reads.end(), state.reads.begin(), state.reads.end());
    layer.assigns.insert(layer.assigns.end(), state.assigns.begin(), state.assigns.end());
  }
  std::vector<Layer> layers;
  for (auto& [cut, layer] : by_cut) layers.push_back(std::move(layer));
  return layers;
}

std::vector<std::int32_t> assign_layers(const Graph& graph, const Trunk& trunk,
                                        const std::vector<CutPlace>& cuts,
                                        const std::vector<Layer>& layers) {
  std::vector<std::int32_t> layer_of(graph.size(), kNoLayer);
  std::int32_t current = kNoLayer;
  for (const NodeId id : trunk.nodes) {
    const auto next = static_cast<std::size_t>(current + 1);
    layer_of[id] = current;
    if (next < layers.size() && trunk.position[id] == cuts[layers[next].cut].position) ++current;
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (const NodeId read : layers[layer].reads) layer_of[read] = static_cast<std::int32_t>(layer);
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (trunk.position[id] != kNowhere || graph.kind(id) == NodeKind::kShapeOf ||
        graph.kind(id) == NodeKind::kReadValue) {
      continue;
    }
    for (const Port port : graph.inputs(id)) {
      layer_of[id] = std::max(layer_of[id], layer_of[port.node]);
    }
  }
  return layer_of;
}

/// Layers that share KV hold together by an edge that jumps over, so they come out as one layer
/// with several attentions beside layers with one.
Status check_separate(const std::vector<Layer>& layers) {
  const auto [least, most] = std::minmax_element(
      layers.begin(), layers.end(),
      [](const Layer& a, const Layer& b) { return a.attentions < b.attentions; });
  const bool uniform = least->attentions == most->attentions && layers.size() > 1;
  if (most->attentions > 1 && !uniform) {
    return fail(ErrorCode::kUnimplemented,
                "{} attention operations from layer {} on are not separable by a cut at one tensor "
                "(layers that share KV?)",
                most->attentions, most - layers.begin());
  }
  return {};
}

/// The last cut that looks like the last layer's input, so that the projection alone is behind it.
Port find_head_input(const Graph& graph, const std::vector<CutPlace>& cuts, const Layer& last) {
  Port head = last.input;
  for (const CutPlace& cut : cuts) {
    if (graph.shape(cut.port) == graph.shape(last.input)) head = cut.port;
  }
  return head;
}

}  // namespace

Result<LayerMap> find_layers(const Graph& graph) {
  LayerMap map;
  PACELINE_ASSIGN_OR_RETURN(map.root, find_root(graph));
  PACELINE_ASSIGN_OR_RETURN(map.result, find_result(graph));
  const Trunk trunk = find_trunk(graph, map.root, map.result);
  if (trunk.nodes.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the output {} does not depend on the input {}",
                graph.describe(map.result), graph.describe(map.root));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto states, find_states(graph, trunk));
  const std::vector<CutPlace> cuts = find_cuts(graph, trunk);
  PACELINE_ASSIGN_OR_RETURN(map.layers, group_states(cuts, states));
  map.layer_of = assign_layers(graph, trunk, cuts, map.layers);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) != NodeKind::kAttention || map.layer_of[id] == kNoLayer) continue;
    ++map.layers[static_cast<std::size_t>(map.layer_of[id])].attentions;
  }
  PACELINE_RETURN_IF_ERROR(check_separate(map.layers));
  for (const CutPlace& cut : cuts) map.cuts.push_back(cut.port);
  map.head_input = find_head_input(graph, cuts, map.layers.back());
  return map;
}

}  // namespace paceline::cut
