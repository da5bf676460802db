// What is done to a stateful stage before it is compiled, and what its graph allows.
#pragma once

#include <memory>

#include <openvino/core/model.hpp>
#include <openvino/core/type/element_type.hpp>

#include "base/error.h"

namespace paceline::engine {

/// Prepares `stage` (as DecoderAnalysis::cut gives it), in place: boundary tensors get `wire_type`,
/// and only sampled rows reach the head of the last stage. States, beam_idx and attention stay as
/// they are, so that the plugin finds its pattern of a KV cache. kUnimplemented where no head is
/// found, or an input is not known.
Status make_stateful(const std::shared_ptr<ov::Model>& stage, ov::element::Type wire_type);

/// Whether forgotten tokens may stay in the state behind zeros of the attention mask, for the
/// stage as it was cut. They take up columns, so no attention may count in columns: all masks must
/// come from one comparison (of what is later), and from no table. Sliding windows compare twice,
/// alibi has slopes, positions counted from the mask have a sum.
bool rewinds_by_mask(const ov::Model& stage);

}  // namespace paceline::engine
