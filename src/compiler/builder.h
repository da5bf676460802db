// Builds the graph of a decoder from its configuration: one builder for all architectures, which
// differ in flags only (docs/adding-an-architecture.md).
//
// The graph is stateful, in the shape of the decoders that optimum-intel exports, which
// openvino_genai runs and SDPAToPagedAttention accepts:
//   input_ids [B, T] i64, attention_mask [B, S] i64, position_ids [B, T] i64, beam_idx [B] i32
//   -> logits [B, T, vocabulary] f32; states "past_key_values.N.keypresent.N.key" and
//   "...value...".
// Weights come through a WeightBinder; no bytes are copied here. A graph of the plugins' own ops
// (compressed FullyConnected, RoPE, RMS) was not an option: they are not public, the plain patterns
// are.
#pragma once

#include <memory>

#include <openvino/core/model.hpp>

#include "base/error.h"
#include "compiler/weight_binder.h"
#include "model/decoder_config.h"

namespace paceline::compiler {

/// Every node gets a name that depends on the graph alone, unique in it, so that the same source
/// gives the same IR. `weights` has what plan_tensors() lists. OpenVINO's exceptions become
/// kInternal.
Result<std::shared_ptr<ov::Model>> build_decoder(const model::DecoderConfig& config,
                                                 WeightBinder& weights);

}  // namespace paceline::compiler
