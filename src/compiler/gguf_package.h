// A package's files from a GGUF: graph and weights, configuration, tokenizer, chat template.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "compiler/filled_package.h"
#include "compiler/progress.h"
#include "compiler/weight_writer.h"
#include "shard/manifest.h"

namespace paceline::compiler {

/// Writes all but the manifest into the existing `directory`. Errors name the file and the field.
Result<FilledPackage> fill_from_gguf(const std::filesystem::path& source,
                                     const std::filesystem::path& directory, Progress& progress,
                                     const WriteOptions& options = {});

}  // namespace paceline::compiler
