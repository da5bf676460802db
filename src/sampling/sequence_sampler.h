// The sampler of one sequence: its specification, the tokens before, and the check of drafts.
//
// Its state is a function of (specification, tokens): it can be made anew from the tokens after a
// recovery, copied for a fork, and cut after rejected drafts. Noise is keyed by position, so a
// token is the same whether it was drafted, drawn by a draft model with the same logits, or sampled
// alone: speculation changes nothing but the number of steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "sampling/sampler.h"
#include "sampling/sampling_spec.h"
#include "sampling/token_history.h"

namespace paceline::sampling {

/// Which tokens are allowed: bit (token % 32) of word token / 32. Empty: all are.
using TokenMask = std::span<const std::uint32_t>;

/// What limits tokens beyond the specification, e.g. a grammar.
class MaskSource {
 public:
  virtual ~MaskSource() = default;
  /// The mask of the token after `accepted`, which are those that this verification has accepted.
  virtual Result<TokenMask> mask(std::span<const std::uint32_t> accepted) = 0;
};

/// Thread-compatible.
class SequenceSampler {
 public:
  /// `prompt_tokens`: the position at which the answer begins. `tokens`: all from position 0 on,
  /// the prompt's and what there is of an answer; they may be missing where nothing depends on
  /// them. kInvalidArgument: a bad specification, token ids outside the vocabulary, or a
  /// repetition_penalty without the prompt's tokens.
  static Result<SequenceSampler> create(SamplingSpec spec, std::uint64_t prompt_tokens,
                                        std::span<const std::uint32_t> tokens,
                                        std::uint64_t vocabulary_size);

  const SamplingSpec& spec() const { return spec_; }
  std::uint64_t prompt_tokens() const { return prompt_tokens_; }
  /// Whether `token` ends the answer.
  bool ends(std::uint32_t token) const;

  /// Of the tokens that it was made with or that were accepted since. Without needs_history() none
  /// are kept after those that it was made with.
  const TokenHistory& history() const { return history_; }
  /// The next token of the sequence is this one, of the vocabulary.
  void accept(std::uint32_t token);
  /// Forgets accepted tokens from position `end` on, never those that it was made with.
  void truncate(std::uint64_t end);
  /// Takes over what `parent` knows of the tokens before: for a fork.
  void inherit(const SequenceSampler& parent);

  /// The token at `position`: logit_bias, min_tokens, the mask and penalties, then sampler.h's
  /// draw(). A draft model calls this with its own logits, and so draws with the noise that will
  /// judge it. kFailedPrecondition: the tokens before `position` are needed and not known, or none
  /// is allowed.
  Result<std::uint32_t> draw(std::span<const float> logits, std::uint64_t position,
                             Workspace& workspace, TokenMask mask = {}) const;
  /// The same, with the log-probabilities that the specification asks for.
  Result<Sample> sample(std::span<const float> logits, std::uint64_t position, Workspace& workspace,
                        TokenMask mask = {}) const;
  /// The known token at `position`, of the prompt, with its log-probabilities in these logits.
  Result<Sample> score(std::span<const float> logits, std::uint64_t position,
                       Workspace& workspace) const;

  /// Samples at `position` and on, as long as the draft of that place is what was sampled.
  /// `drafts`: tokens that someone guesses to follow, each the one before. `logits`: one row for
  /// the token before all drafts, then one for each draft. Gives the accepted drafts and one token
  /// more. Each sampled token is accepted; after an error none is. Ends early with a stop token.
  Result<std::vector<Sample>> verify(std::span<const float> logits, std::uint64_t position,
                                     std::span<const std::uint32_t> drafts, Workspace& workspace,
                                     MaskSource* masks = nullptr);

 private:
  SequenceSampler(SamplingSpec spec, std::uint64_t prompt_tokens,
                  std::span<const std::uint32_t> tokens, std::uint64_t vocabulary_size);

  /// Whether what the penalties count is known up to `position`.
  Status check_history(std::uint64_t position) const;
  /// The logits with all that is done to them before temperature and cuts: the given ones where
  /// that is nothing, else the workspace's.
  std::span<const float> adjust(std::span<const float> logits, std::uint64_t position,
                                Workspace& workspace, TokenMask mask) const;
  void apply_penalties(std::vector<float>& logits) const;

  SamplingSpec spec_;
  std::uint64_t vocabulary_size_;
  std::uint64_t prompt_tokens_;
  TokenHistory history_;
  std::uint64_t given_end_;  ///< one after the last token that it was made with
};

/// The token at `position` of a sequence of which no other token counts.
Result<Sample> sample(std::span<const float> logits, const SamplingSpec& spec,
                      std::uint64_t position);

}  // namespace paceline::sampling
