// What differs from layer to layer, as config.json says it: windows and layers without rope.
#pragma once

#include "base/error.h"
#include "model/config_fields.h"
#include "model/decoder_config.h"
#include "model/hf_architectures.h"

namespace paceline::model {

/// Fills each layer's `window_tokens` and `rope`; the layers are there. A `layer_types` that the
/// architecture does not heed must say the same as the other fields.
Status read_hf_layers(const HfArchitecture& architecture, const ConfigFields& fields,
                      DecoderConfig& config);

}  // namespace paceline::model
