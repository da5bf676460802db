// Weights that a Hugging Face directory holds in eight bits, with scales beside them.
#pragma once

#include "base/error.h"
#include "model/config_fields.h"
#include "model/decoder_config.h"

namespace paceline::model {

/// Reads the optional object quantization_config: FP8 E4M3 in blocks, rows or whole. Others are
/// named: kUnimplemented.
Status read_hf_quantization(const ConfigFields& root, DecoderConfig& config);

}  // namespace paceline::model
