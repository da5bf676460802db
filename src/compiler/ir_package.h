// A package's files from a directory that has an OpenVINO decoder IR already.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "compiler/progress.h"
#include "shard/manifest.h"

namespace paceline::compiler {

/// What config.json tells; the directory's name stands for the model's where it has none.
/// kNotFound where there is no openvino_model.xml or .bin, kFailedPrecondition for a directory of
/// safetensors alone.
Result<shard::ModelFacts> ir_facts(const std::filesystem::path& source);

/// Links, or copies, the files that belong to a package into `directory`: the IRs, configurations,
/// tokenizer and templates; not weights in other formats.
Result<shard::ModelFacts> fill_from_ir(const std::filesystem::path& source,
                                       const std::filesystem::path& directory, Progress& progress);

/// What fill_from_ir does where the file system knows no links: piece by piece, so that an end is
/// heeded. `to` is written over.
Status copy_file(const std::filesystem::path& from, const std::filesystem::path& to,
                 Progress& progress);

}  // namespace paceline::compiler
