// From a stateful stage to a paged one: the graph surgery at load.
#pragma once

#include <memory>

#include <openvino/core/model.hpp>
#include <openvino/core/type/element_type.hpp>

#include "base/error.h"

namespace paceline::engine {

/// Turns `stage` (as DecoderAnalysis::cut gives it) into its PagedAttention form, in place:
/// boundary tensors get `wire_type`, and in the last stage a Gather before the head lets only
/// sampled rows through. Errors: kUnimplemented where the graph has no attention that the
/// transformation knows, or no head to put the Gather before.
Status make_paged(const std::shared_ptr<ov::Model>& stage, ov::element::Type wire_type);

}  // namespace paceline::engine
