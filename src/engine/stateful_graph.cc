#include "engine/stateful_graph.h"

#include <set>
#include <string>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/op/cum_sum.hpp>
#include <openvino/op/read_value.hpp>
#include <openvino/op/scaled_dot_product_attention.hpp>
#include <openvino/op/shape_of.hpp>
#include <openvino/op/util/binary_elementwise_comparison.hpp>
#include <openvino/op/util/read_value_base.hpp>
#include <openvino/op/util/shape_of_base.hpp>

#include "cut/cut.h"
#include "cut/openvino_error.h"
#include "engine/stage_graph.h"

namespace paceline::engine {
namespace {

constexpr std::size_t kMaskInput = 3;
constexpr std::int64_t kTokensAxis = 1;  ///< of [batch, tokens, width]

bool is_known(const std::string& input) {
  static const std::set<std::string> names = {"input_ids", cut::kBoundaryInput, "attention_mask",
                                              "position_ids", "beam_idx"};
  return names.contains(input);
}

/// The nodes that the masks are computed from; shapes and states are not followed further.
std::set<ov::Node*> mask_nodes(const ov::Model& stage, std::size_t& attentions) {
  std::set<ov::Node*> seen;
  std::vector<ov::Node*> open;
  for (const auto& node : stage.get_ops()) {
    if (!ov::is_type<ov::op::v13::ScaledDotProductAttention>(node)) continue;
    ++attentions;
    if (node->get_input_size() > kMaskInput) open.push_back(node->get_input_node_ptr(kMaskInput));
  }
  while (!open.empty()) {
    ov::Node* const node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (ov::is_type<ov::op::util::ShapeOfBase>(node) ||
        ov::is_type<ov::op::util::ReadValueBase>(node)) {
      continue;
    }
    for (const auto& input : node->input_values()) open.push_back(input.get_node());
  }
  return seen;
}

/// Numbers that differ by head or by column.
bool is_table(const ov::Node* node) {
  return ov::is_type<ov::op::v0::Constant>(node) && node->get_element_type().is_real() &&
         ov::shape_size(node->get_output_shape(0)) > 1;
}

}  // namespace

Status make_stateful(const std::shared_ptr<ov::Model>& stage, ov::element::Type wire_type) {
  return cut::catch_openvino(stage->get_friendly_name(), [&]() -> Status {
    for (const auto& input : stage->inputs()) {
      const std::string name = input.get_names().empty() ? "" : input.get_any_name();
      if (!is_known(name)) {
        return fail(ErrorCode::kUnimplemented,
                    "the model's input '{}' is not known to the stateful engine", name);
      }
    }
    if (is_last_stage(*stage)) PACELINE_RETURN_IF_ERROR(gather_before_head(stage, kTokensAxis));
    retype_boundaries(*stage, wire_type);
    stage->validate_nodes_and_infer_types();
    return {};
  });
}

bool rewinds_by_mask(const ov::Model& stage) {
  std::size_t attentions = 0;
  std::size_t comparisons = 0;
  for (const ov::Node* node : mask_nodes(stage, attentions)) {
    if (is_table(node) || ov::is_type<ov::op::v0::CumSum>(node)) return false;
    comparisons += ov::is_type<ov::op::util::BinaryElementwiseComparison>(node) ? 1 : 0;
  }
  // Each has two states, for keys and values; what else keeps a state may count in columns.
  return attentions > 0 && stage.get_sinks().size() == 2 * attentions && comparisons == 1;
}

}  // namespace paceline::engine
