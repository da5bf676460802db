#include "cut/constant_extents.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <openvino/op/constant.hpp>
#include <optional>

#include "cut/graph.h"
#include "cut/layer_map.h"
#include "cut/stage_plan.h"

namespace paceline::cut {
namespace {

/// The parts of the decoder, in order: embedding, layers, head.
std::vector<StageSpec> parts_of(const LayerMap& map) {
  const auto count = static_cast<std::uint32_t>(map.layers.size());
  std::vector<StageSpec> parts;
  parts.push_back({std::nullopt, map.layers.front().input, {0, 0}});
  for (std::uint32_t layer = 0; layer < count; ++layer) {
    const Port end = layer + 1 < count ? map.layers[layer + 1].input : map.head_input;
    parts.push_back({map.layers[layer].input, end, {layer, layer + 1}});
  }
  parts.push_back({map.head_input, std::nullopt, {count, count}});
  return parts;
}

Result<ByteExtent> extent_of(const Graph& graph, NodeId id, std::span<const std::byte> weights) {
  const auto& constant = *ov::as_type_ptr<ov::op::v0::Constant>(graph.node(id));
  const auto* data = static_cast<const std::byte*>(constant.get_data_ptr());
  const std::size_t size = constant.get_byte_size();
  const std::less_equal<const std::byte*> not_after;
  const std::byte* const begin = weights.data();
  const std::byte* const end = begin + weights.size();
  if (!not_after(begin, data) || !not_after(data, end) ||
      size > static_cast<std::size_t>(end - data)) {
    return fail(ErrorCode::kFailedPrecondition,
                "the constant {} does not lie in the weights file: read the model on its .bin",
                graph.describe(id));
  }
  return ByteExtent{static_cast<std::uint64_t>(data - begin), size};
}

/// Numbers from which OpenVINO infers shapes as it reads the whole IR, on every stage.
bool is_structural(const Graph& graph, NodeId id) {
  constexpr std::size_t kSmallBytes = 64;
  constexpr std::size_t kMostShapeBytes = 65536;
  const auto& constant = *ov::as_type_ptr<ov::op::v0::Constant>(graph.node(id));
  const ov::element::Type& type = constant.get_element_type();
  const bool may_be_shape = type.is_integral_number() && type.size() >= 4;
  return constant.get_byte_size() <= (may_be_shape ? kMostShapeBytes : kSmallBytes);
}

}  // namespace

ByteExtents merge_extents(ByteExtents extents) {
  std::sort(extents.begin(), extents.end(),
            [](ByteExtent a, ByteExtent b) { return a.offset < b.offset; });
  ByteExtents merged;
  for (const ByteExtent extent : extents) {
    if (extent.size == 0) continue;
    if (!merged.empty() && extent.offset <= merged.back().offset + merged.back().size) {
      const std::uint64_t end =
          std::max(merged.back().offset + merged.back().size, extent.offset + extent.size);
      merged.back().size = end - merged.back().offset;
    } else {
      merged.push_back(extent);
    }
  }
  return merged;
}

std::uint64_t total_bytes(const ByteExtents& extents) {
  std::uint64_t total = 0;
  for (const ByteExtent extent : extents) total += extent.size;
  return total;
}

ByteExtents ConstantExtents::of(LayerRange range) const {
  ByteExtents all = shared;
  const auto add = [&](const ByteExtents& part) {
    all.insert(all.end(), part.begin(), part.end());
  };
  if (range.begin == 0) add(embedding);
  for (std::uint32_t layer = range.begin; layer < range.end; ++layer) add(layers[layer]);
  if (range.end == layers.size()) add(head);
  return merge_extents(std::move(all));
}

Result<ConstantExtents> find_constant_extents(const Graph& graph, const LayerMap& map,
                                              std::span<const std::byte> weights) {
  const std::vector<StageSpec> parts = parts_of(map);
  const std::size_t layer_count = map.layers.size();
  std::vector<std::vector<NodeId>> constants(parts.size());
  std::map<NodeId, std::size_t> layers_reading;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    PACELINE_ASSIGN_OR_RETURN(const auto plan, plan_stage(graph, map, parts[part]));
    for (const NodeId id : plan.order) {
      if (graph.kind(id) != NodeKind::kConstant) continue;
      constants[part].push_back(id);
      if (part > 0 && part <= layer_count) ++layers_reading[id];
    }
  }
  ConstantExtents extents;
  std::vector<ByteExtents> by_part(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const NodeId id : constants[part]) {
      PACELINE_ASSIGN_OR_RETURN(const ByteExtent extent, extent_of(graph, id, weights));
      const auto reading = layers_reading.find(id);
      const bool by_all =
          layer_count > 1 && reading != layers_reading.end() && reading->second == layer_count;
      (by_all ? extents.shared : by_part[part]).push_back(extent);
    }
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) != NodeKind::kConstant || !is_structural(graph, id)) continue;
    PACELINE_ASSIGN_OR_RETURN(const ByteExtent extent, extent_of(graph, id, weights));
    extents.shared.push_back(extent);
  }
  for (ByteExtents& part : by_part) part = merge_extents(std::move(part));
  extents.shared = merge_extents(std::move(extents.shared));
  extents.embedding = std::move(by_part.front());
  extents.head = std::move(by_part.back());
  extents.layers.assign(std::make_move_iterator(by_part.begin() + 1),
                        std::make_move_iterator(by_part.end() - 1));
  return extents;
}

}  // namespace paceline::cut
