// A mixture of experts in the shape from which the CPU plugin makes GatherMatmul nodes, which read
// the weights of routed experts alone.
#pragma once

#include <openvino/core/node_output.hpp>

#include "compiler/decoder_nodes.h"
#include "model/decoder_config.h"

namespace paceline::compiler {

/// Weights of one layer's experts, E of them.
struct ExpertWeights {
  Output router;  ///< [E, hidden]
  Output gate;    ///< [E, inner, hidden]
  Output up;      ///< [E, inner, hidden]
  Output down;    ///< [E, hidden, inner]
};

/// The sum of the chosen experts' gated feed-forwards, each weighted by the router's softmax:
/// [B, T, hidden] -> [B, T, hidden].
Output mix_experts(const Output& x, const ExpertWeights& weights,
                   const model::DecoderConfig& config);

}  // namespace paceline::compiler
