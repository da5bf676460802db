// The golden models as a GGUF stores them. For tests.
#pragma once

#include <memory>
#include <string>

#include "compiler/golden_model_testing.h"
#include "model/decoder_config.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// GGUF's names, stacks of experts, and rows of queries and keys so that rope turns neighbours
/// where the architecture's files have them so. Norm weights are what a norm multiplies with.
std::unique_ptr<model::TensorSource> gguf_tensors(const std::string& name);

/// golden_config() as far as files of GGUF differ.
model::DecoderConfig gguf_config(const std::string& name);

}  // namespace paceline::compiler
