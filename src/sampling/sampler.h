// The choice of one token from one row of logits, and what the row says about it.
//
// Functions of (logits, specification, position): no state, so the choice is the same in every
// batch, on every stage count and after a recovery. What depends on the tokens before (penalties)
// is sequence_sampler.h's concern. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "sampling/candidates.h"
#include "sampling/sampling_spec.h"

namespace paceline::sampling {

struct TokenLogprob {
  std::uint32_t token = 0;
  double logprob = 0;
};

struct Sample {
  std::int64_t token = 0;
  /// Natural logarithm of the token's probability in the model's own distribution: the softmax of
  /// the logits as they came, no bias, penalty, temperature or cut. 0 unless asked for.
  double logprob = 0;
  /// The likeliest tokens of the same distribution, likeliest first, as many as were asked for.
  std::vector<TokenLogprob> top = {};
};

/// The token at `position` (of the sequence, from 0), by the temperature and the cuts of `spec`,
/// which has been checked. `logits`: one f32 per vocabulary entry; -inf means "not allowed".
///
/// temperature 0: the highest logit, the lowest id among equals. Otherwise logits / temperature, of
/// which those at least max + temperature ln(min_p) stay, of those the top_k highest (the lowest
/// ids among equals), of those the fewest likeliest whose probability reaches top_p (the one that
/// reaches it included), and of those the token with the highest log-probability + Gumbel noise of
/// (seed, choice, position, token): a draw from their softmax (the Gumbel-max trick, e.g. Maddison,
/// Tarlow, Minka, "A* Sampling", 2014).
///
/// kInvalidArgument for more than 2^20 logits, kInternal "logits are not finite" for a NaN or +inf,
/// or where nothing is above -inf.
Result<std::uint32_t> draw(std::span<const float> logits, const SamplingSpec& spec,
                           std::uint64_t position, Workspace& workspace);

/// `token` with its log-probability and those of the `top` likeliest tokens, from the model's own
/// logits. Exact to 1e-8.
Result<Sample> describe(std::span<const float> logits, std::uint32_t token, std::uint32_t top,
                        Workspace& workspace);

/// A 64-bit hash of the logits' bits, never 0: shows bitwise equality without sending them. Rows
/// that differ in one pair of logits (2i, 2i+1) never have equal digests, save 0 mapped to 1. Not
/// cryptographic; the same on every byte order.
std::uint64_t logits_digest(std::span<const float> logits);

}  // namespace paceline::sampling
