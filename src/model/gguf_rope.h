// Rotary position embeddings as a GGUF's keys and tensors say them.
#pragma once

#include "base/error.h"
#include "model/decoder_config.h"
#include "model/gguf_architectures.h"
#include "model/gguf_keys.h"

namespace paceline::model {

/// Fills `ropes` and `rope_dimensions`; sizes and windows are there, and layers that slide with a
/// rope of their own are given it. Factors come from the tensors rope_freqs.weight and
/// rope_factors_short/long.weight. Unknown scalings are named: kUnimplemented.
Status read_gguf_ropes(const GgufArchitecture& architecture, const GgufKeys& keys,
                       DecoderConfig& config);

}  // namespace paceline::model
