// What the graphs of all engines have in common: boundary tensors of the wire's type, and a head
// that sees sampled rows only.
#pragma once

#include <cstdint>
#include <memory>

#include <openvino/core/model.hpp>
#include <openvino/core/type/element_type.hpp>
#include <openvino/op/parameter.hpp>

#include "base/error.h"

namespace paceline::engine {

/// Name of the i64 [samples] input that picks the rows that reach the head.
inline constexpr char kSampledRowsInput[] = "sampled_rows";
/// Name of the last stage's second output: what the head would read of all rows.
inline constexpr char kFinalRowsOutput[] = "final_rows";

/// The Parameter that the stage before is read through; nullptr in a first stage.
std::shared_ptr<ov::op::v0::Parameter> boundary_input(const ov::Model& stage);

/// Whether the stage gives logits and no boundary tensor.
bool is_last_stage(const ov::Model& stage);

/// Lets only the rows that kSampledRowsInput names reach the head; `rows_axis` is where the head's
/// input has its rows. All of them, as they were before, leave as kFinalRowsOutput.
/// kUnimplemented where no head is found.
Status gather_before_head(const std::shared_ptr<ov::Model>& stage, std::int64_t rows_axis);

/// Boundary tensors and kFinalRowsOutput get the type of the wire, logits f32; inside, the stage
/// computes as before. (An output of another type than the inference precision would have the
/// plugin keep all that leads to it, up to the next product, in that type: other bits, more time.)
void retype_boundaries(const ov::Model& stage, ov::element::Type wire_type);

/// Rows of the table that `input_ids` looks up; 0 where there is none. A token id from there on
/// would be read beyond the table.
std::uint64_t embedding_rows(const ov::Model& stage);

/// Of all constants of the graph.
std::uint64_t constant_bytes(const ov::Model& model);

}  // namespace paceline::engine
