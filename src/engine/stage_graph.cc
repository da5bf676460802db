#include "engine/stage_graph.h"

#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/gather.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/reshape.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/util/gather_base.hpp>

#include "cut/cut.h"

namespace paceline::engine {
namespace {

using ov::op::v0::Constant;
using ov::op::v0::Convert;
using ov::op::v0::MatMul;
using ov::op::v0::Parameter;

bool has_name(const ov::Output<ov::Node>& output, const char* name) {
  return output.get_names().contains(name);
}

/// The head: the MatMul that `logits` comes from through element-wise nodes only.
std::shared_ptr<MatMul> find_head(const std::shared_ptr<ov::Node>& result) {
  std::shared_ptr<ov::Node> node = result->get_input_node_shared_ptr(0);
  while (node->get_input_size() > 0) {
    if (auto matmul = ov::as_type_ptr<MatMul>(node)) return matmul;
    node = node->get_input_node_shared_ptr(0);
  }
  return nullptr;
}

/// Gives the boundary input the type of the wire; the stage computes on it as f32.
void retype_input(const ov::Model& stage, ov::element::Type wire_type) {
  const auto parameter = boundary_input(stage);
  if (parameter && parameter->get_element_type() != wire_type) {
    const auto type = parameter->get_element_type();
    const auto consumers = parameter->output(0).get_target_inputs();
    parameter->set_element_type(wire_type);
    parameter->validate_and_infer_types();
    const auto convert = std::make_shared<Convert>(parameter, type);
    for (auto consumer : consumers) consumer.replace_source_output(convert->output(0));
  }
}

void retype_outputs(const ov::Model& stage, ov::element::Type wire_type) {
  for (const auto& result : stage.get_results()) {
    const ov::Output<ov::Node> source = result->input_value(0);
    const bool is_hidden =
        has_name(source, cut::kBoundaryOutput) || has_name(source, kFinalRowsOutput);
    const ov::element::Type type = is_hidden ? wire_type : ov::element::f32;
    if (source.get_element_type() == type) continue;
    const auto names = source.get_names();
    const auto convert = std::make_shared<Convert>(source, type);
    source.get_tensor().set_names({});
    convert->output(0).set_names(names);
    result->input(0).replace_source_output(convert->output(0));
  }
}

/// Rows of the table that `ids`, perhaps converted or reshaped, index; 0 where none is found.
std::uint64_t rows_looked_up_by(const ov::Output<ov::Node>& ids) {
  for (const auto& input : ids.get_target_inputs()) {
    auto* const node = input.get_node();
    std::uint64_t rows = 0;
    const bool is_reshape = ov::is_type<ov::op::v1::Reshape>(node) && input.get_index() == 0;
    if (ov::is_type<Convert>(node) || is_reshape) {
      rows = rows_looked_up_by(node->output(0));
    } else if (ov::is_type<ov::op::util::GatherBase>(node) && input.get_index() == 1) {
      const ov::PartialShape& table = node->get_input_partial_shape(0);
      const bool is_known = table.rank().is_static() && table.size() == 2 && table[0].is_static();
      if (is_known) rows = static_cast<std::uint64_t>(table[0].get_length());
    }
    if (rows > 0) return rows;
  }
  return 0;
}

}  // namespace

std::shared_ptr<Parameter> boundary_input(const ov::Model& stage) {
  for (const auto& parameter : stage.get_parameters()) {
    if (has_name(parameter->output(0), cut::kBoundaryInput)) return parameter;
  }
  return nullptr;
}

Status gather_before_head(const std::shared_ptr<ov::Model>& stage, std::int64_t rows_axis) {
  const auto head = find_head(stage->get_results().front());
  if (!head) {
    return fail(ErrorCode::kUnimplemented, "{}: found no head (a MatMul before the logits)",
                stage->get_friendly_name());
  }
  auto rows = std::make_shared<Parameter>(ov::element::i64, ov::PartialShape{-1});
  rows->set_friendly_name(kSampledRowsInput);
  rows->output(0).set_names({kSampledRowsInput});
  const auto axis = Constant::create(ov::element::i64, ov::Shape{}, {rows_axis});
  const ov::Output<ov::Node> all = head->input_value(0);
  const auto gather = std::make_shared<ov::op::v8::Gather>(all, rows, axis);
  head->input(0).replace_source_output(gather->output(0));
  all.get_tensor().add_names({kFinalRowsOutput});
  stage->add_results({std::make_shared<ov::op::v0::Result>(all)});
  stage->add_parameters({rows});
  return {};
}

std::uint64_t embedding_rows(const ov::Model& stage) {
  for (const auto& parameter : stage.get_parameters()) {
    if (has_name(parameter->output(0), "input_ids")) return rows_looked_up_by(parameter->output(0));
  }
  return 0;
}

bool is_last_stage(const ov::Model& stage) {
  return !has_name(stage.get_results().front()->input_value(0), cut::kBoundaryOutput);
}

void retype_boundaries(const ov::Model& stage, ov::element::Type wire_type) {
  retype_input(stage, wire_type);
  retype_outputs(stage, wire_type);
}

std::uint64_t constant_bytes(const ov::Model& model) {
  std::uint64_t bytes = 0;
  for (const auto& node : model.get_ops()) {
    const auto constant = ov::as_type_ptr<Constant>(node);
    if (constant) bytes += constant->get_byte_size();
  }
  return bytes;
}

}  // namespace paceline::engine
