// The configuration of a model published as a Hugging Face directory.
//
// Reads config.json, and generation_config.json for the tokens that end a text. Architectures are
// the rows of hf_architectures.h. What a field means is what transformers makes of it; fields that
// are missing where nothing is assumed of them, of a wrong type or in contradiction are refused by
// name, and so are architectures, rope types, activations and quantizations that are not built.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/decoder_config.h"

namespace paceline::model {

/// The two files' text; an empty `generation_config` stands for a file that is not there. Errors
/// name the files as config.json and generation_config.json.
Result<DecoderConfig> parse_hf_config(std::string_view config, std::string_view generation_config);

/// Reads DIRECTORY/config.json and, where it is there, DIRECTORY/generation_config.json. The
/// model's name is the directory's.
Result<DecoderConfig> read_hf_config(const std::filesystem::path& directory);

}  // namespace paceline::model
