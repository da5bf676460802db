// From a published model to a directory that OpenVINO GenAI runs: graph, weights and configuration.
//
// Not the tokenizer, the chat template or the manifest; those are other parts of a package.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "compiler/progress.h"
#include "compiler/stored_weight.h"
#include "compiler/weight_writer.h"
#include "model/decoder_config.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// Writes openvino_model.xml, openvino_model.bin (tensors in layer order, each aligned to 64
/// bytes) into the existing `directory`, and config.json and generation_config.json where it does
/// not have the source's own. Memory is bounded as write_weights says, whatever the model's size.
/// On an error the directory holds what was done so far: give it one that vanishes
/// (system::AtomicDirectory). Where `options` name a journal, an openvino_model.bin that is there
/// is gone on with.
Result<StoredWeights> build_ir_directory(const model::TensorSource& source,
                                         const model::DecoderConfig& config,
                                         const std::filesystem::path& directory, Progress& progress,
                                         const WriteOptions& options = {});

}  // namespace paceline::compiler
