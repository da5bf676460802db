// Where the drafts of a sequence come from, as the scheduler sees it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace paceline::spec {

/// One text that grows, from its opening to its end; numbers are never used again.
using LineId = StrongId<struct LineIdTag, std::uint64_t>;

/// Guesses of the next tokens, to be verified by the rows that follow the last known one.
struct Draft {
  std::vector<std::int64_t> tokens;
  std::uint32_t match =
      0;  ///< how sure the source is (tokens of context that agreed); it gets it back
  /// There are none yet, but soon: the line is worth leaving out of a step until then. Whoever
  /// drives the scheduler hears of it from the source and plans again.
  bool is_coming = false;
};

/// What a step has room for, and what else is in it.
struct DraftRoom {
  std::uint32_t most = 0;          ///< drafts
  std::uint32_t other_rows = 0;    ///< rows of other sequences in the step
  std::uint32_t other_tokens = 0;  ///< tokens that the others get at least: one per sequence
};

/// What became of a draft, or of a step without one.
struct DraftOutcome {
  std::uint32_t proposed = 0;
  std::uint32_t accepted = 0;
  std::uint32_t match = 0;
  bool is_void = false;  ///< computed for nothing: an earlier draft that it built on was wrong
  DraftRoom room;
};

/// Thread-compatible. Drafts change what a text costs, never the text.
class DraftSource {
 public:
  virtual ~DraftSource() = default;
  /// `salt`: texts of different salts must not learn from each other.
  virtual void open(LineId line, std::string_view salt) = 0;
  /// Guesses what follows `known` and then `assumed` (drafts that are being verified), at most
  /// `room.most`; none where it does not pay. `known` only ever grows.
  virtual Draft propose(LineId line, std::span<const std::int64_t> known,
                        std::span<const std::int64_t> assumed, const DraftRoom& room) = 0;
  /// After each step that gave the line tokens, with or without drafts.
  virtual void observe(LineId line, const DraftOutcome& outcome) = 0;
  /// The text is complete; others may learn from it.
  virtual void finish(LineId line, std::span<const std::int64_t> tokens) = 0;
};

}  // namespace paceline::spec
