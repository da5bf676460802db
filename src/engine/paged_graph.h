// From a stateful stage to a paged one: the graph surgery at load.
#pragma once

#include <cstdint>
#include <memory>

#include <openvino/core/model.hpp>
#include <openvino/core/type/element_type.hpp>

#include "base/error.h"

namespace paceline::engine {

/// Name of the i64 [samples] input that picks the rows that reach the head.
inline constexpr char kSampledRowsInput[] = "sampled_rows";

/// Turns `stage` (as DecoderAnalysis::cut gives it) into its PagedAttention form, in place:
/// boundary tensors get `wire_type`, and in the last stage a Gather before the head lets only
/// sampled rows through. Errors: kUnimplemented where the graph has no attention that the
/// transformation knows, or no head to put the Gather before.
Status make_paged(const std::shared_ptr<ov::Model>& stage, ov::element::Type wire_type);

/// Rows of the table that `input_ids` looks up; 0 where there is none. A token id from there on
/// would be read beyond the table.
std::uint64_t embedding_rows(const ov::Model& stage);

}  // namespace paceline::engine
