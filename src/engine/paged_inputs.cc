#include "engine/paged_inputs.h"

#include <algorithm>
#include <limits>

namespace paceline::engine {
namespace {

constexpr std::uint64_t kMaxContextTokens = std::numeric_limits<std::int32_t>::max() / 2;

Status check_sequence(const SequenceRows& sequence, const PagedAddressing& addressing) {
  const auto id = sequence.sequence.value();
  if (sequence.new_tokens == 0) {
    return fail(ErrorCode::kInvalidArgument, "sequence {} has no rows in this step", id);
  }
  const std::uint64_t total = std::uint64_t{sequence.past_tokens} + sequence.new_tokens;
  const std::uint64_t needed =
      (total + addressing.logical_block_tokens - 1) / addressing.logical_block_tokens;
  if (total > kMaxContextTokens || sequence.blocks.size() < needed) {
    return fail(ErrorCode::kInvalidArgument, "sequence {} has {} blocks, {} tokens need {}", id,
                sequence.blocks.size(), total, needed);
  }
  for (const BlockId block : sequence.blocks) {
    if (block.value() >= addressing.kv_blocks) {
      return fail(ErrorCode::kInvalidArgument, "sequence {} names KV block {}, there are {}", id,
                  block.value(), addressing.kv_blocks);
    }
  }
  for (const std::uint32_t row : sequence.sampled_rows) {
    if (row >= sequence.new_tokens) {
      return fail(ErrorCode::kInvalidArgument, "sequence {} samples row {} of {}", id, row,
                  sequence.new_tokens);
    }
  }
  return {};
}

/// One row more of the last sequence: token 0 at the position of the row before it (a position
/// beyond may have no embedding).
void append_padding_row(const PagedAddressing& addressing, std::uint32_t total,
                        PagedInputs& inputs) {
  inputs.position_ids.push_back(total - 1);
  inputs.is_wanted.push_back(false);
  ++inputs.padding_rows;
  if (total % addressing.engine_block_tokens() == 0) {
    inputs.block_indices.push_back(static_cast<std::int32_t>(addressing.padding_block()));
  }
}

void append_sequence(const SequenceRows& sequence, const PagedAddressing& addressing,
                     bool pad_single, PagedInputs& inputs) {
  const auto first_row = static_cast<std::int64_t>(inputs.position_ids.size());
  const std::uint32_t total = sequence.past_tokens + sequence.new_tokens;
  for (std::uint32_t position = sequence.past_tokens; position < total; ++position) {
    inputs.position_ids.push_back(position);
    inputs.is_wanted.push_back(true);
  }
  const std::uint32_t engine_blocks =
      (total + addressing.engine_block_tokens() - 1) / addressing.engine_block_tokens();
  for (std::uint32_t block = 0; block < engine_blocks; ++block) {
    const BlockId logical = sequence.blocks[block / addressing.blocks_per_logical];
    inputs.block_indices.push_back(static_cast<std::int32_t>(
        logical.value() * addressing.blocks_per_logical + block % addressing.blocks_per_logical));
  }
  const bool is_padded = pad_single && sequence.new_tokens == 1;
  if (is_padded) append_padding_row(addressing, total, inputs);
  inputs.past_lens.push_back(static_cast<std::int32_t>(sequence.past_tokens));
  inputs.subsequence_begins.push_back(static_cast<std::int32_t>(inputs.position_ids.size()));
  inputs.block_indices_begins.push_back(static_cast<std::int32_t>(inputs.block_indices.size()));
  inputs.max_context_len =
      std::max(inputs.max_context_len, static_cast<std::int32_t>(total + (is_padded ? 1 : 0)));
  for (const std::uint32_t row : sequence.sampled_rows) {
    inputs.sampled_rows.push_back(first_row + row);
  }
}

}  // namespace

Result<PagedInputs> make_paged_inputs(const StageBatch& batch, const PagedAddressing& addressing,
                                      bool pad_single) {
  if (batch.sequences.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the step has no sequences");
  }
  for (const SequenceRows& sequence : batch.sequences) {
    PACELINE_RETURN_IF_ERROR(check_sequence(sequence, addressing));
  }
  PagedInputs inputs;
  inputs.subsequence_begins.push_back(0);
  inputs.block_indices_begins.push_back(0);
  for (const SequenceRows& sequence : batch.sequences) {
    append_sequence(sequence, addressing, pad_single, inputs);
  }
  if (!batch.tokens.empty()) {
    auto token = batch.tokens.begin();
    for (const bool is_wanted : inputs.is_wanted) {
      inputs.input_ids.push_back(is_wanted ? *token++ : 0);
    }
  }
  if (pad_single && inputs.sampled_rows.size() == 1) {
    inputs.sampled_rows.push_back(inputs.sampled_rows.front());
    inputs.padding_samples = 1;
  }
  return inputs;
}

}  // namespace paceline::engine
