// config.json and generation_config.json of a package whose source has none (a GGUF): what Hugging
// Face's files say about the architecture, in their words.
#pragma once

#include <string>

#include "model/decoder_config.h"

namespace paceline::compiler {

/// A published config.json for `config`; read_hf_config makes the same configuration of it.
/// `config.architecture` is a GGUF's or a class of transformers.
std::string config_json(const model::DecoderConfig& config);

std::string generation_config_json(const model::DecoderConfig& config);

}  // namespace paceline::compiler
