// A package's files from a Hugging Face directory: graph and weights from safetensors,
// configuration, tokenizer, chat template.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "compiler/filled_package.h"
#include "compiler/progress.h"
#include "compiler/weight_writer.h"
#include "shard/manifest.h"

namespace paceline::compiler {

/// Whether a directory holds safetensors and no OpenVINO IR.
bool is_hf_directory(const std::filesystem::path& source);

/// Writes all but the manifest into the existing `directory`. Errors name the file and the field.
/// Reads config.json, generation_config.json, model.safetensors or its parts, and the files of
/// hf_text.h.
Result<FilledPackage> fill_from_hf(const std::filesystem::path& source,
                                   const std::filesystem::path& directory, Progress& progress,
                                   const WriteOptions& options = {});

}  // namespace paceline::compiler
