// One step: which sequences compute which rows, and what the stages do before.
//
// Says what the wire's Step says, without its types: sched knows no wire. The coordinator
// translates (sequence for sequence; a freed one is a sequence with Free), adds how an opened
// sequence samples, and maps step numbers to the chain's own.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "kv/block_manager.h"
#include "sched/request.h"

namespace paceline::sched {

/// The token that an earlier step samples at one of its rows, numbered over that whole step.
struct TokenReference {
  StepId step;
  std::uint32_t row = 0;
  friend bool operator==(const TokenReference&, const TokenReference&) = default;
};
using TokenInput = std::variant<std::int64_t, TokenReference>;

struct PlannedRows {
  SequenceId sequence;
  ChoiceKey key;
  std::uint32_t past_tokens = 0;
  std::vector<TokenInput> tokens;           ///< one per row
  std::vector<std::uint32_t> sampled_rows;  ///< of these rows, rising
  /// How many rows, the last ones, are guesses. All of them: the first is a guess of the token that
  /// the sequence's step before samples last.
  std::uint32_t drafts = 0;
  /// It begins as a copy of that one, then cut to truncate_to.
  std::optional<SequenceId> fork_from;
  std::optional<std::uint32_t> truncate_to;
  std::vector<BlockId> blocks;  ///< covering past and new tokens
};

/// Begins in this step, at the past_tokens of its rows: where that is not 0 and it forks from
/// nobody, the KV is in its blocks (a prefix that is cached).
struct OpenedSequence {
  SequenceId sequence;
  ChoiceKey key;
  std::uint32_t history_tokens = 0;  ///< known tokens that count for the sampler
  Duration waited = {};              ///< since the request's arrival
};

/// What a sampled row gave.
struct RowSample {
  std::uint32_t row = 0;  ///< numbered over the step
  std::int64_t token = 0;
  friend bool operator==(const RowSample&, const RowSample&) = default;
};

struct StepPlan {
  StepId id;
  std::vector<OpenedSequence> opened;
  std::vector<kv::BlockCopy> copies;  ///< in order, before the rows
  std::vector<PlannedRows> sequences;
  /// Ended sequences, after the operations of the others. Freeing one that a stage does not have is
  /// no error: after an undone step some stages may have opened it and some not.
  std::vector<SequenceId> freed;

  std::uint32_t rows() const;
  std::size_t samples() const;
};

}  // namespace paceline::sched
