#include "cut/graph.h"

#include <fmt/format.h>

#include <openvino/op/constant.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/scaled_dot_product_attention.hpp>
#include <openvino/op/util/assign_base.hpp>
#include <openvino/op/util/read_value_base.hpp>
#include <openvino/op/util/shape_of_base.hpp>
#include <utility>

namespace paceline::cut {
namespace {

NodeKind kind_of(const ov::Node* node) {
  if (ov::is_type<ov::op::v0::Constant>(node)) return NodeKind::kConstant;
  if (ov::is_type<ov::op::v0::Parameter>(node)) return NodeKind::kParameter;
  if (ov::is_type<ov::op::v0::Result>(node)) return NodeKind::kResult;
  if (ov::is_type<ov::op::util::ShapeOfBase>(node)) return NodeKind::kShapeOf;
  if (ov::is_type<ov::op::util::ReadValueBase>(node)) return NodeKind::kReadValue;
  if (ov::is_type<ov::op::util::AssignBase>(node)) return NodeKind::kAssign;
  if (ov::is_type<ov::op::v13::ScaledDotProductAttention>(node)) return NodeKind::kAttention;
  return NodeKind::kOther;
}

}  // namespace

Graph::Graph(std::shared_ptr<const ov::Model> model)
    : model_(std::move(model)), nodes_(model_->get_ordered_ops()) {
  kinds_.reserve(nodes_.size());
  inputs_.resize(nodes_.size());
  users_.resize(nodes_.size());
  ids_.reserve(nodes_.size());
  for (NodeId id = 0; id < size(); ++id) {
    const ov::Node* node = nodes_[id].get();
    ids_.emplace(node, id);
    kinds_.push_back(kind_of(node));
    for (std::size_t input = 0; input < node->get_input_size(); ++input) {
      const auto source = node->input_value(input);
      const Port port{ids_.at(source.get_node()), static_cast<std::uint32_t>(source.get_index())};
      inputs_[id].push_back(port);
      users_[port.node].push_back({id, port.output});
    }
  }
}

std::string Graph::variable_id(NodeId id) const {
  const auto* extension = dynamic_cast<const ov::op::util::VariableExtension*>(nodes_[id].get());
  return extension == nullptr ? std::string() : extension->get_variable_id();
}

std::string Graph::describe(NodeId id) const {
  const std::string variable = variable_id(id);
  return fmt::format("{} ({}{}{})", nodes_[id]->get_friendly_name(), nodes_[id]->get_type_name(),
                     variable.empty() ? "" : " of ", variable);
}

}  // namespace paceline::cut
