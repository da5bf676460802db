// Small random models for tests, as GGUF files in memory, and what they compute by definition.
//
// Not part of the product.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/decoder_config.h"
#include "model/gguf.h"
#include "model/gguf_test_writer.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// ggml's number of a type.
std::uint32_t ggml_number(model::TensorType type);

/// Random blocks of `elements` whose values are about `magnitude`.
std::string random_blocks(model::TensorType type, std::uint64_t elements, float magnitude,
                          std::uint32_t seed);

struct SmallLlama {
  model::TensorType type = model::TensorType::kF32;        ///< of the layers' matrices
  model::TensorType table_type = model::TensorType::kF32;  ///< of the embedding and the head
  std::uint32_t layers = 2;
  std::uint32_t hidden = 256;
  std::uint32_t inner = 256;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_size = 64;
  std::uint32_t rotary = 64;
  std::uint32_t vocabulary = 48;
  bool tied = true;
  bool rope_divisors = false;
  float rope_linear_factor = 1.0F;
};

model::GgufTestWriter write_small_llama(const SmallLlama& options);
std::unique_ptr<model::GgufFile> open_small_llama(const SmallLlama& options);

/// The logits [tokens, vocabulary] of a llama GGUF by its definition, in double precision and with
/// plain loops: rows of queries and keys as they are stored, rope on the neighbours (2i, 2i + 1).
std::vector<double> reference_logits(const model::GgufFile& file,
                                     const model::DecoderConfig& config,
                                     const std::vector<std::int64_t>& tokens);

}  // namespace paceline::compiler
