#include "cut/stage_plan.h"

#include <algorithm>
#include <array>

#include "cut/layer_pairing.h"

namespace paceline::cut {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const LayerMap& map, const StageSpec& spec);
  Result<StagePlan> run();

 private:
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };

  bool owns(NodeId read) const;
  bool is_boundary(Port port) const { return plan_.spec.input && *plan_.spec.input == port; }
  /// The node's inputs in the stage; empty where the stage's boundary or an undecided ShapeOf is.
  std::vector<Port> stage_inputs(NodeId id) const;
  void find_foreign();
  std::vector<NodeId> targets() const;
  Status enter(NodeId id, NodeId user);
  Status visit_from(NodeId target);

  Status repoint(NodeId shape_of);
  bool try_source(NodeId shape_of, ShapeSource source);
  bool reaches(NodeId from, NodeId wanted) const;
  bool repoint_to_twin(NodeId shape_of, Port source);
  bool repoint_from_root(NodeId shape_of, Port source);

  const Graph& graph_;
  const LayerMap& map_;
  StagePlan plan_;
  std::vector<bool> foreign_;  ///< by node: its data needs another part's, not by way of the input
  std::vector<Mark> marks_;
};

Planner::Planner(const Graph& graph, const LayerMap& map, const StageSpec& spec)
    : graph_(graph), map_(map), plan_{spec, {}, {}}, marks_(graph.size(), Mark::kNew) {}

bool Planner::owns(NodeId read) const {
  const std::int32_t layer = map_.layer_of[read];
  return layer >= static_cast<std::int32_t>(plan_.spec.layers.begin) &&
         layer < static_cast<std::int32_t>(plan_.spec.layers.end);
}

void Planner::find_foreign() {
  foreign_.assign(graph_.size(), false);
  if (plan_.spec.input) foreign_[map_.root] = true;
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const NodeKind kind = graph_.kind(id);
    if (kind == NodeKind::kReadValue) foreign_[id] = !owns(id);
    if (kind == NodeKind::kReadValue || kind == NodeKind::kShapeOf) continue;
    for (const Port port : graph_.inputs(id)) {
      if (!is_boundary(port) && foreign_[port.node]) foreign_[id] = true;
    }
  }
}

std::vector<NodeId> Planner::targets() const {
  std::vector<NodeId> targets = {plan_.spec.output ? plan_.spec.output->node : map_.result};
  for (std::uint32_t layer = plan_.spec.layers.begin; layer < plan_.spec.layers.end; ++layer) {
    const auto& assigns = map_.layers[layer].assigns;
    targets.insert(targets.end(), assigns.begin(), assigns.end());
  }
  return targets;
}

std::vector<Port> Planner::stage_inputs(NodeId id) const {
  std::vector<Port> inputs;
  const auto repointed = plan_.shape_sources.find(id);
  if (repointed != plan_.shape_sources.end()) {
    const ShapeSource& source = repointed->second;
    if (!source.is_fixed && !is_boundary(source.port)) inputs.push_back(source.port);
    return inputs;
  }
  for (const Port port : graph_.inputs(id)) {
    if (is_boundary(port)) continue;
    if (graph_.kind(id) == NodeKind::kShapeOf && foreign_[port.node]) continue;
    inputs.push_back(port);
  }
  return inputs;
}

bool Planner::reaches(NodeId from, NodeId wanted) const {
  std::vector<bool> seen(graph_.size(), false);
  std::vector<NodeId> open = {from};
  seen[from] = true;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (id == wanted) return true;
    for (const Port port : stage_inputs(id)) {
      if (seen[port.node]) continue;
      seen[port.node] = true;
      open.push_back(port.node);
    }
  }
  return false;
}

bool Planner::try_source(NodeId shape_of, ShapeSource source) {
  if (!is_boundary(source.port) &&
      (foreign_[source.port.node] || reaches(source.port.node, shape_of))) {
    return false;
  }
  plan_.shape_sources.emplace(shape_of, source);
  return true;
}

/// The same tensor in one of the stage's own layers.
bool Planner::repoint_to_twin(NodeId shape_of, Port source) {
  const std::int32_t from = map_.layer_of[source.node];
  const auto is_input = [&](const Layer& layer) { return layer.input == source; };
  if (plan_.spec.input && std::any_of(map_.layers.begin(), map_.layers.end(), is_input)) {
    return try_source(shape_of, {*plan_.spec.input});
  }
  if (from == kNoLayer) return false;
  for (std::uint32_t to = plan_.spec.layers.begin; to < plan_.spec.layers.end; ++to) {
    const auto twins = pair_layers(graph_, map_, static_cast<std::uint32_t>(from), to);
    const auto twin = twins.find(source.node);
    if (twin != twins.end() && try_source(shape_of, {{twin->second, source.output}})) return true;
  }
  return false;
}

/// [batch, tokens] of the ids themselves: also the head of the boundary's shape, or position_ids'.
bool Planner::repoint_from_root(NodeId shape_of, Port source) {
  Port origin = source;
  while (graph_.shape(origin).rank() == ov::Rank(2) &&
         graph_.kind(origin.node) == NodeKind::kOther) {
    const std::string_view type = graph_.node(origin.node)->get_type_name();
    if (type != "Convert" && type != "Reshape") break;
    origin = graph_.inputs(origin.node)[0];
  }
  if (origin.node != map_.root || !plan_.spec.input || graph_.shape(source).rank() != ov::Rank(2) ||
      graph_.shape(origin).rank() != ov::Rank(2)) {
    return false;
  }
  if (graph_.shape(*plan_.spec.input).rank() == ov::Rank(3)) {
    return try_source(shape_of, {*plan_.spec.input, 2});
  }
  for (const auto& parameter : graph_.model()->get_parameters()) {
    const bool named = parameter->get_friendly_name() == "position_ids" ||
                       parameter->output(0).get_names().count("position_ids") != 0;
    if (named && parameter->get_partial_shape().rank() == ov::Rank(2)) {
      return try_source(shape_of, {{graph_.id_of(parameter.get()), 0}});
    }
  }
  return false;
}

Status Planner::repoint(NodeId shape_of) {
  const Port source = graph_.inputs(shape_of)[0];
  if (repoint_to_twin(shape_of, source) || repoint_from_root(shape_of, source)) return {};
  return fail(ErrorCode::kUnimplemented,
              "layers {}..{} need the shape of {} outside of them, for {}, and have no tensor of "
              "that shape",
              plan_.spec.layers.begin, plan_.spec.layers.end, graph_.describe(source.node),
              graph_.describe(shape_of));
}

/// Opens a node that `user` reads: refuses foreign data, fixes a known shape, repoints a foreign
/// one.
Status Planner::enter(NodeId id, NodeId user) {
  const NodeKind kind = graph_.kind(id);
  const bool is_source = kind == NodeKind::kReadValue || kind == NodeKind::kParameter;
  if (is_source && foreign_[id]) {
    return fail(ErrorCode::kUnimplemented, "layers {}..{} need {} of other layers, for {}",
                plan_.spec.layers.begin, plan_.spec.layers.end, graph_.describe(id),
                graph_.describe(user));
  }
  marks_[id] = Mark::kOpen;
  if (kind != NodeKind::kShapeOf) return {};
  const Port source = graph_.inputs(id)[0];
  if (graph_.shape(source).is_static()) {
    plan_.shape_sources.emplace(id, ShapeSource{source, 0, true});
    return {};
  }
  if (is_boundary(source) || !foreign_[source.node]) return {};
  return repoint(id);
}

/// Depth first, with its own stack (graphs are thousands of nodes deep); appends in post-order.
Status Planner::visit_from(NodeId target) {
  struct Frame {
    NodeId id;
    std::vector<Port> inputs;
    std::size_t next = 0;
  };
  if (marks_[target] != Mark::kNew) return {};
  PACELINE_RETURN_IF_ERROR(enter(target, target));
  std::vector<Frame> stack;
  stack.push_back({target, stage_inputs(target)});
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next == frame.inputs.size()) {
      marks_[frame.id] = Mark::kDone;
      plan_.order.push_back(frame.id);
      stack.pop_back();
      continue;
    }
    const NodeId source = frame.inputs[frame.next++].node;
    if (marks_[source] == Mark::kDone) continue;
    if (marks_[source] == Mark::kOpen) {
      return fail(ErrorCode::kInternal, "layers {}..{} became circular at {}",
                  plan_.spec.layers.begin, plan_.spec.layers.end, graph_.describe(source));
    }
    PACELINE_RETURN_IF_ERROR(enter(source, frame.id));
    stack.push_back({source, stage_inputs(source)});
  }
  return {};
}

Result<StagePlan> Planner::run() {
  find_foreign();
  for (const NodeId target : targets()) PACELINE_RETURN_IF_ERROR(visit_from(target));
  return std::move(plan_);
}

}  // namespace

StageSpec stage_spec(const LayerMap& map, LayerRange range) {
  StageSpec spec;
  spec.layers = range;
  if (range.begin > 0) spec.input = map.layers[range.begin].input;
  if (range.end < map.layers.size()) spec.output = map.layers[range.end].input;
  return spec;
}

Result<StagePlan> plan_stage(const Graph& graph, const LayerMap& map, const StageSpec& spec) {
  return Planner(graph, map, spec).run();
}

}  // namespace paceline::cut
