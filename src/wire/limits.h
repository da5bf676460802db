// Bounds of what a frame may hold. Both sides check them: what is sent can be read.
#pragma once

#include <cstdint>

namespace paceline::wire {

struct Limits {
  std::uint32_t header_bytes = 16U << 20;
  std::uint32_t handshake_header_bytes = 1U << 20;  ///< of a connection's first frame
  std::uint64_t payload_bytes = 1ULL << 30;
  /// Protobuf fields in a header, nested ones counted: parsing takes tens of bytes for each.
  std::uint32_t header_fields = 1U << 20;

  std::uint32_t sequences = 4096;           ///< in a step; also opened ones
  std::uint32_t step_tokens = 1U << 20;     ///< rows of a step
  std::uint32_t history_tokens = 1U << 20;  ///< of all sequences that a step opens
  std::uint32_t kv_groups = 16;
  std::uint32_t step_blocks = 1U << 20;
  std::uint32_t block_copies = 1U << 16;
  std::uint32_t operations = 64;           ///< per sequence
  std::uint32_t logit_biases = 1024;       ///< per opened sequence
  std::uint32_t stop_tokens = 256;         ///< the same
  std::uint32_t grammar_bytes = 1U << 16;  ///< the same
  std::uint32_t top_logprobs = 20;         ///< per sample
  std::uint32_t mean_values = 1U << 20;    ///< of all samples of a result
  std::uint32_t route = 256;
  std::uint32_t packages = 1024;
  std::uint32_t tensors = 16;  ///< also boundary specifications
  std::uint32_t rank = 8;

  std::uint32_t piece_bytes = 1U << 20;   ///< of a Piece's payload
  std::uint64_t file_bytes = 1ULL << 53;  ///< of a package's file

  std::uint32_t name_bytes = 256;  ///< names, digests, versions, addresses
  std::uint32_t message_bytes = 4096;
};

}  // namespace paceline::wire
