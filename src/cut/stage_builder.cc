#include "cut/stage_builder.h"

#include <fmt/format.h>

#include <map>
#include <openvino/op/constant.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/sink.hpp>
#include <openvino/op/slice.hpp>
#include <openvino/op/util/variable_extension.hpp>
#include <string>
#include <unordered_map>

#include "cut/cut.h"
#include "cut/openvino_error.h"

namespace paceline::cut {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, const LayerMap& map, const StagePlan& plan)
      : graph_(graph), map_(map), plan_(plan) {}
  std::shared_ptr<ov::Model> run();

 private:
  void add_boundary_input();
  void clone(NodeId id);
  std::shared_ptr<ov::Node> fixed_shape(NodeId id) const;
  ov::OutputVector cloned_inputs(NodeId id) const;
  ov::Output<ov::Node> cloned(Port port) const;
  void copy_marks(NodeId id, ov::Node& clone) const;
  void own_variable(ov::Node& clone);
  std::shared_ptr<ov::op::v0::Result> end() const;
  ov::ParameterVector parameters() const;
  ov::SinkVector sinks() const;

  const Graph& graph_;
  const LayerMap& map_;
  const StagePlan& plan_;
  std::shared_ptr<ov::op::v0::Parameter> boundary_;
  std::unordered_map<NodeId, std::shared_ptr<ov::Node>> clones_;
  std::unordered_map<NodeId, ov::Output<ov::Node>> shortened_;  ///< of ShapeOf: what users read
  std::map<std::string, ov::op::util::Variable::Ptr> variables_;
};

void Builder::add_boundary_input() {
  if (!plan_.spec.input) return;
  const Port source = *plan_.spec.input;
  boundary_ = std::make_shared<ov::op::v0::Parameter>(
      graph_.node(source.node)->get_output_element_type(source.output), graph_.shape(source));
  boundary_->set_friendly_name(kBoundaryInput);
  boundary_->output(0).set_names({kBoundaryInput});
}

ov::Output<ov::Node> Builder::cloned(Port port) const {
  if (plan_.spec.input && *plan_.spec.input == port) return boundary_->output(0);
  const auto shortened = shortened_.find(port.node);
  if (shortened != shortened_.end()) return shortened->second;
  return clones_.at(port.node)->output(port.output);
}

ov::OutputVector Builder::cloned_inputs(NodeId id) const {
  const auto repointed = plan_.shape_sources.find(id);
  if (repointed != plan_.shape_sources.end()) return {cloned(repointed->second.port)};
  ov::OutputVector inputs;
  for (const Port port : graph_.inputs(id)) inputs.push_back(cloned(port));
  return inputs;
}

/// Names and rt_info. The boundary's names are left to the boundary.
void Builder::copy_marks(NodeId id, ov::Node& clone) const {
  const ov::Node& source = *graph_.node(id);
  clone.set_friendly_name(source.get_friendly_name());
  clone.get_rt_info() = source.get_rt_info();
  for (std::size_t input = 0; input < clone.get_input_size(); ++input) {
    clone.input(input).get_rt_info() = source.input(input).get_rt_info();
  }
  for (std::size_t output = 0; output < source.get_output_size(); ++output) {
    clone.output(output).get_rt_info() = source.output(output).get_rt_info();
    auto names = source.output(output).get_names();
    if (id != map_.root) names.erase(kBoundaryInput);
    if (id != map_.result) names.erase(kBoundaryOutput);
    clone.output(output).set_names(names);
  }
}

/// Model::validate writes into Variables, so the source's must not be shared.
void Builder::own_variable(ov::Node& clone) {
  auto* extension = dynamic_cast<ov::op::util::VariableExtension*>(&clone);
  if (extension == nullptr) return;
  auto& variable = variables_[extension->get_variable_id()];
  if (!variable) {
    variable = std::make_shared<ov::op::util::Variable>(extension->get_variable()->get_info());
  }
  extension->set_variable(variable);
}

/// The Constant that a ShapeOf of a known shape amounts to; null for other nodes.
std::shared_ptr<ov::Node> Builder::fixed_shape(NodeId id) const {
  const auto repointed = plan_.shape_sources.find(id);
  if (repointed == plan_.shape_sources.end() || !repointed->second.is_fixed) return nullptr;
  const ov::Shape shape = graph_.shape(repointed->second.port).to_shape();
  return ov::op::v0::Constant::create(graph_.node(id)->get_output_element_type(0),
                                      ov::Shape{shape.size()}, shape);
}

void Builder::clone(NodeId id) {
  auto clone = fixed_shape(id);
  if (!clone) clone = graph_.node(id)->clone_with_new_inputs(cloned_inputs(id));
  own_variable(*clone);
  copy_marks(id, *clone);
  clones_.emplace(id, clone);
  const auto repointed = plan_.shape_sources.find(id);
  if (repointed == plan_.shape_sources.end() || repointed->second.leading_dimensions == 0) return;
  const std::string name = clone->get_friendly_name() + "/leading";
  const auto number = [&](const char* role, std::int64_t value) {
    const auto constant = ov::op::v0::Constant::create(ov::element::i64, ov::Shape{1}, {value});
    constant->set_friendly_name(name + role);
    return constant;
  };
  const auto slice = std::make_shared<ov::op::v8::Slice>(
      clone, number("/start", 0), number("/stop", repointed->second.leading_dimensions),
      number("/step", 1), number("/axis", 0));
  slice->set_friendly_name(name);
  shortened_.emplace(id, slice->output(0));
}

std::shared_ptr<ov::op::v0::Result> Builder::end() const {
  if (!plan_.spec.output) {
    return ov::as_type_ptr<ov::op::v0::Result>(clones_.at(map_.result));
  }
  const auto output = cloned(*plan_.spec.output);
  const auto result = std::make_shared<ov::op::v0::Result>(output);
  result->set_friendly_name(kBoundaryOutput);
  output.get_node()->output(output.get_index()).set_names({kBoundaryOutput});
  return result;
}

ov::ParameterVector Builder::parameters() const {
  ov::ParameterVector parameters;
  if (boundary_) parameters.push_back(boundary_);
  for (const auto& parameter : graph_.model()->get_parameters()) {
    const auto clone = clones_.find(graph_.id_of(parameter.get()));
    if (clone == clones_.end()) continue;
    parameters.push_back(ov::as_type_ptr<ov::op::v0::Parameter>(clone->second));
  }
  return parameters;
}

ov::SinkVector Builder::sinks() const {
  ov::SinkVector sinks;
  for (const auto& sink : graph_.model()->get_sinks()) {
    const auto clone = clones_.find(graph_.id_of(sink.get()));
    if (clone == clones_.end()) continue;
    sinks.push_back(ov::as_type_ptr<ov::op::Sink>(clone->second));
  }
  return sinks;
}

std::shared_ptr<ov::Model> Builder::run() {
  add_boundary_input();
  for (const NodeId id : plan_.order) clone(id);
  ov::op::util::VariableVector variables;
  for (const auto& [id, variable] : variables_) variables.push_back(variable);
  const auto& source = *graph_.model();
  auto stage =
      std::make_shared<ov::Model>(ov::ResultVector{end()}, sinks(), parameters(), variables,
                                  fmt::format("{}_{}_{}", source.get_friendly_name(),
                                              plan_.spec.layers.begin, plan_.spec.layers.end));
  stage->get_rt_info() = source.get_rt_info();
  stage->validate_nodes_and_infer_types();
  return stage;
}

}  // namespace

Result<std::shared_ptr<ov::Model>> build_stage(const Graph& graph, const LayerMap& map,
                                               const StagePlan& plan) {
  try {
    return Builder(graph, map, plan).run();
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "layers {}..{}: OpenVINO refused the stage: {}",
                plan.spec.layers.begin, plan.spec.layers.end, one_line(exception));
  }
}

}  // namespace paceline::cut
