#include "cut/cut.h"

#include <openvino/op/constant.hpp>
#include <openvino/op/util/read_value_base.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "cut/graph.h"
#include "cut/layer_map.h"
#include "cut/openvino_error.h"
#include "cut/stage_builder.h"
#include "cut/stage_plan.h"

namespace paceline::cut {
namespace {

/// A dimension's length, or 0 where it is open.
std::uint32_t fixed(const ov::Dimension& dimension) {
  return dimension.is_static() ? static_cast<std::uint32_t>(dimension.get_length()) : 0;
}

/// Elements that a state keeps of each token: the product of its fixed dimensions.
std::uint32_t elements_per_token(const ov::PartialShape& shape) {
  std::uint64_t product = 1;
  for (const ov::Dimension& dimension : shape) {
    if (dimension.is_static()) product *= static_cast<std::uint64_t>(dimension.get_length());
  }
  return static_cast<std::uint32_t>(product);
}

/// The state that an input of the attention comes from, by its data.
std::optional<NodeId> state_behind(const Graph& graph, const Layer& layer, Port source) {
  std::set<NodeId> seen;
  std::vector<NodeId> open = {source.node};
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (id == layer.input.node || graph.kind(id) == NodeKind::kShapeOf) continue;
    if (!seen.insert(id).second) continue;
    if (graph.kind(id) == NodeKind::kReadValue) return id;
    for (const Port port : graph.inputs(id)) open.push_back(port.node);
  }
  return std::nullopt;
}

/// Of an attention that the graph spells out: one state of keys and one of values, by their names,
/// each [batch, heads, tokens, size].
LayerKv kv_of_states(const Graph& graph, const Layer& layer) {
  if (layer.reads.size() != 2) return {};
  const ov::PartialShape& keys = graph.shape({layer.reads[0], 0});
  const ov::PartialShape& values = graph.shape({layer.reads[1], 0});
  if (keys.rank() != 4 || values.rank() != 4) return {};
  return {fixed(keys[1]), fixed(keys[3]), fixed(values[3])};
}

}  // namespace

struct DecoderAnalysis::Impl {
  Graph graph;
  LayerMap map;
  Status check(LayerRange range) const;
  Result<StagePlan> plan(LayerRange range) const;
};

Status DecoderAnalysis::Impl::check(LayerRange range) const {
  if (range.begin >= range.end || range.end > map.layers.size()) {
    return fail(ErrorCode::kOutOfRange, "layers {}..{}: expected a range within 0..{}", range.begin,
                range.end, map.layers.size());
  }
  return {};
}

Result<StagePlan> DecoderAnalysis::Impl::plan(LayerRange range) const {
  PACELINE_RETURN_IF_ERROR(check(range));
  return plan_stage(graph, map, stage_spec(map, range));
}

DecoderAnalysis::DecoderAnalysis(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DecoderAnalysis::DecoderAnalysis(DecoderAnalysis&&) noexcept = default;
DecoderAnalysis& DecoderAnalysis::operator=(DecoderAnalysis&&) noexcept = default;
DecoderAnalysis::~DecoderAnalysis() = default;

Result<DecoderAnalysis> DecoderAnalysis::analyse(std::shared_ptr<const ov::Model> model) {
  PACELINE_CHECK(model != nullptr);
  try {
    Graph graph(std::move(model));
    PACELINE_ASSIGN_OR_RETURN(LayerMap map, find_layers(graph));
    return DecoderAnalysis(std::make_unique<Impl>(Impl{std::move(graph), std::move(map)}));
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "the graph cannot be analysed: {}", one_line(exception));
  }
}

std::uint32_t DecoderAnalysis::layers() const {
  return static_cast<std::uint32_t>(impl_->map.layers.size());
}

const std::shared_ptr<const ov::Model>& DecoderAnalysis::model() const {
  return impl_->graph.model();
}

Result<std::shared_ptr<ov::Model>> DecoderAnalysis::cut(LayerRange range) const {
  PACELINE_ASSIGN_OR_RETURN(const StagePlan plan, impl_->plan(range));
  return build_stage(impl_->graph, impl_->map, plan);
}

Boundary DecoderAnalysis::boundary(std::uint32_t layer) const {
  PACELINE_CHECK(layer < layers());
  const Port port = impl_->map.layers[layer].input;
  Boundary boundary;
  boundary.shape = impl_->graph.shape(port);
  boundary.element_type = impl_->graph.node(port.node)->get_output_element_type(port.output);
  if (boundary.shape.rank().is_static() && boundary.shape.size() > 0) {
    boundary.hidden_size = fixed(boundary.shape[boundary.shape.size() - 1]);
  }
  return boundary;
}

LayerKv DecoderAnalysis::layer_kv(std::uint32_t layer) const {
  PACELINE_CHECK(layer < layers());
  const Graph& graph = impl_->graph;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) != NodeKind::kAttention ||
        impl_->map.layer_of[id] != static_cast<std::int32_t>(layer)) {
      continue;
    }
    const Port key = graph.inputs(id)[1];
    const Port value = graph.inputs(id)[2];
    const auto key_state = state_behind(graph, impl_->map.layers[layer], key);
    LayerKv kv;
    kv.key_head_size = fixed(*graph.shape(key).rbegin());
    kv.value_head_size = fixed(*graph.shape(value).rbegin());
    if (!key_state || kv.key_head_size == 0) return {};
    kv.key_heads = elements_per_token(graph.shape({*key_state, 0})) / kv.key_head_size;
    return kv;
  }
  return kv_of_states(graph, impl_->map.layers[layer]);
}

std::uint64_t DecoderAnalysis::vocabulary_size() const {
  const ov::PartialShape& shape = impl_->graph.shape({impl_->map.result, 0});
  return shape.rank().is_static() && shape.size() > 0 ? fixed(shape[shape.size() - 1]) : 0;
}

Result<std::uint64_t> DecoderAnalysis::constant_bytes(LayerRange range) const {
  PACELINE_ASSIGN_OR_RETURN(const StagePlan plan, impl_->plan(range));
  std::set<const void*> counted;
  std::uint64_t bytes = 0;
  for (const NodeId id : plan.order) {
    const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(impl_->graph.node(id));
    if (!constant || !counted.insert(constant->get_data_ptr()).second) continue;
    bytes += constant->get_byte_size();
  }
  return bytes;
}

Result<ConstantExtents> DecoderAnalysis::constant_extents(
    std::span<const std::byte> weights) const {
  return find_constant_extents(impl_->graph, impl_->map, weights);
}

}  // namespace paceline::cut
