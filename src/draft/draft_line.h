// One text that a draft model follows: what is given of it, what was guessed, and how far the
// model has computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "sampling/sequence_sampler.h"
#include "spec/draft_model.h"

namespace paceline::draft {

/// Rows of one line in a batch, as they were when it was sent.
struct SentRows {
  spec::LineId line;
  std::uint64_t life = 0;  ///< of the line's rows
  std::size_t past = 0;
  std::vector<std::int64_t> tokens;
  bool is_sampled = false;  ///< the last row's logits are wanted
};

/// Lifecycle: made when the line is opened, begun with the first follow(). Thread-compatible.
class DraftLine {
 public:
  DraftLine(sampling::SamplingSpec sampling, std::uint32_t prompt_tokens)
      : sampling_(std::move(sampling)), prompt_tokens_(prompt_tokens) {}

  /// The text is `known` and then `assumed`. Guesses that agree with it stay, as do the rows that
  /// were computed for them; what was assumed and is neither known nor assumed any more counts as a
  /// guess until the text says otherwise. Errors: those of the sampler's making.
  Status follow(std::span<const std::int64_t> known, std::span<const std::int64_t> assumed,
                std::uint64_t vocabulary_size);
  /// Guesses up to this number are wanted, and those up to `horizon` are welcome.
  void want(std::size_t count, std::size_t horizon);
  /// There is what is wanted, or the text ends before.
  bool is_ready() const { return has_ended_ || guesses() >= wanted_; }
  bool needs_rows() const { return !has_ended_ && guesses() < horizon_; }
  /// At least one: the last token's row gives the next guess.
  std::size_t missing_rows() const { return tokens_.size() - computed_; }
  /// Given tokens that have no row yet; the others' rows come with the guesses.
  std::size_t rows_behind() const { return text_ > computed_ ? text_ - computed_ : 0; }

  /// Up to `most` of the rows that it needs next.
  SentRows next_rows(spec::LineId line, std::size_t most) const;
  /// They are computed; `logits` are the last one's where it was sampled. What the text has become
  /// meanwhile counts. An error of the sampler ends the line's guesses.
  Status settle(const SentRows& rows, std::span<const float> logits,
                sampling::Workspace& workspace);
  /// The rows are lost.
  void forget_rows() {
    computed_ = 0;
    ++life_;
  }

  std::size_t text() const { return text_; }
  std::size_t guesses() const { return tokens_.size() - text_; }
  std::vector<std::int64_t> guessed(std::size_t most) const;

  // The drafter's books.
  std::vector<BlockId> blocks;
  std::uint64_t last_use = 0;
  bool is_awaited = false;

 private:
  void cut(std::size_t end);
  void append(std::int64_t token);
  bool needs_history() const { return sampling_.needs_history(); }

  const sampling::SamplingSpec sampling_;
  const std::uint32_t prompt_tokens_;
  std::optional<sampling::SequenceSampler> sampler_;
  std::vector<std::int64_t> tokens_;  ///< the text, then guesses
  std::size_t text_ = 0;
  std::size_t computed_ = 0;  ///< rows; always fewer than tokens
  std::uint64_t life_ = 0;    ///< another one with each loss of the rows
  std::size_t wanted_ = 0;
  std::size_t horizon_ = 0;
  bool has_ended_ = false;  ///< the last guess ends the text
};

}  // namespace paceline::draft
