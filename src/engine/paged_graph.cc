#include "engine/paged_graph.h"

#include <openvino/pass/manager.hpp>
#include <openvino/pass/sdpa_to_paged_attention.hpp>

#include "cut/openvino_error.h"
#include "engine/capped_attention.h"
#include "engine/stage_graph.h"

namespace paceline::engine {
namespace {

/// The transformation opens the width of the boundary input to any; with the true one the plugin
/// fuses the first norm as it does inside an uncut model (else results differ by 1e-6).
void fix_input_width(const ov::Model& stage, ov::Dimension width) {
  const auto input = boundary_input(stage);
  if (!input) return;
  ov::PartialShape shape = input->get_partial_shape();
  *shape.rbegin() = width;
  input->set_partial_shape(shape);
}

}  // namespace

Status make_paged(const std::shared_ptr<ov::Model>& stage, ov::element::Type wire_type) {
  return cut::catch_openvino(stage->get_friendly_name(), [&]() -> Status {
    const auto input = boundary_input(*stage);
    const ov::Dimension width =
        input ? *input->get_partial_shape().rbegin() : ov::Dimension::dynamic();
    const CappedAttentions caps = take_caps(stage);
    ov::pass::Manager manager;
    manager.register_pass<ov::pass::SDPAToPagedAttention>();
    manager.run_passes(stage);
    give_caps(stage, caps);
    if (is_last_stage(*stage)) PACELINE_RETURN_IF_ERROR(gather_before_head(stage, 0));
    fix_input_width(*stage, width);
    stage->validate_nodes_and_infer_types();
    retype_boundaries(*stage, wire_type);
    stage->validate_nodes_and_infer_types();
    return {};
  });
}

}  // namespace paceline::engine
