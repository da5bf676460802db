// The index arrays of a PagedAttention model, made from an engine-neutral batch. Pure.
//
// Shapes and meanings are those of OpenVINO's PagedAttentionExtension op: rows of all sequences
// are concatenated; subsequence_begins and block_indices_begins are prefix sums.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "engine/stage_engine.h"

namespace paceline::engine {

/// How logical blocks map to the blocks of one engine.
struct PagedAddressing {
  std::uint32_t logical_block_tokens = 32;
  std::uint32_t blocks_per_logical = 1;  ///< engine blocks per logical block
  std::uint32_t kv_blocks = 0;           ///< logical blocks; the one after them is for padding

  std::uint32_t engine_block_tokens() const { return logical_block_tokens / blocks_per_logical; }
  /// The first engine block that no sequence may use: where a padding row's KV goes.
  std::uint32_t padding_block() const { return kv_blocks * blocks_per_logical; }
};

struct PagedInputs {
  std::vector<std::int64_t> input_ids;             ///< [rows]; empty after the first stage
  std::vector<std::int64_t> position_ids;          ///< [rows]
  std::vector<std::int32_t> past_lens;             ///< [sequences]
  std::vector<std::int32_t> subsequence_begins;    ///< [sequences + 1]
  std::vector<std::int32_t> block_indices;         ///< engine blocks of all sequences
  std::vector<std::int32_t> block_indices_begins;  ///< [sequences + 1]
  std::int32_t max_context_len = 0;
  std::vector<std::int64_t> sampled_rows;  ///< [samples], rows of the step
  /// [rows], those of the batch in order; false for a row that is there for padding only.
  std::vector<bool> is_wanted;
  std::size_t padding_rows = 0;     ///< rows that are not wanted
  std::size_t padding_samples = 0;  ///< at the end of sampled_rows, to be dropped
};

/// `pad_single`: a sequence of one row, and a head of one row, get a second one, because the plugin
/// computes a single row with other kernels than two or more: the products by the step, attention
/// by the sequence (profile exact). The additional row of a sequence follows its own, so that
/// nothing sees it; its KV goes where the next token's will, or into the padding block.
/// kInvalidArgument names the sequence and what does not fit.
Result<PagedInputs> make_paged_inputs(const StageBatch& batch, const PagedAddressing& addressing,
                                      bool pad_single);

}  // namespace paceline::engine
