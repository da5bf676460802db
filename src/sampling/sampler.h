// The choice of one token from logits: greedy, or sampled with temperature, top-k and top-p.
//
// A function of (logits, specification, position): no state, so the choice is the same in every
// batch, on every stage count and after a recovery. Grammar masks, penalties and stop strings are
// other files' concern; what is masked comes in as -inf. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "sampling/sampling_spec.h"

namespace paceline::sampling {

struct Sample {
  std::int64_t token = 0;
  /// Natural logarithm of the token's probability in the softmax of the logits as they came: no
  /// temperature, no top-k, no top-p.
  double logprob = 0;
};

/// kInvalidArgument naming the field: temperature must be finite and >= 0, top_p in (0, 1].
Status check(const SamplingSpec& spec);

/// The token at `position` (of the sequence, from 0), from one f32 logit per vocabulary entry.
///
/// temperature 0: the highest logit, the lowest id among equals. Otherwise logits / temperature,
/// of which the top_k highest stay (the lowest ids among equals), of those the fewest likeliest
/// whose probability reaches top_p (the one that reaches it included), and of those the token with
/// the highest log-probability + Gumbel noise of (seed, choice, position, token): a draw from their
/// softmax (the Gumbel-max trick, e.g. Maddison, Tarlow, Minka, "A* Sampling", 2014).
///
/// kInvalidArgument for a bad specification or more than 2^31 logits, kInternal "logits are not
/// finite" for a NaN or +inf, or where nothing is above -inf.
Result<Sample> sample(std::span<const float> logits, const SamplingSpec& spec,
                      std::uint64_t position);

/// A 64-bit hash of the logits' bits, never 0: shows bitwise equality without sending them. Rows
/// that differ in one pair of logits (2i, 2i+1) never have equal digests, save 0 mapped to 1. Not
/// cryptographic; the same on every byte order.
std::uint64_t logits_digest(std::span<const float> logits);

}  // namespace paceline::sampling
