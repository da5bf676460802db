// Rotary position embeddings as config.json says them.
#pragma once

#include "base/error.h"
#include "model/config_fields.h"
#include "model/decoder_config.h"
#include "model/hf_architectures.h"

namespace paceline::model {

/// Fills `ropes` and `rope_dimensions`; sizes are there. Reads the older form (rope_theta,
/// rope_scaling with `type` or `rope_type`, partial_rotary_factor, rope_local_base_freq) and the
/// newer (rope_parameters, for each layer type where the two differ). Unknown types are named:
/// kUnimplemented.
Status read_hf_ropes(const HfArchitecture& architecture, const ConfigFields& fields,
                     DecoderConfig& config);

}  // namespace paceline::model
