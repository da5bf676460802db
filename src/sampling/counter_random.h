// Random numbers that are a function of what they are for, not of what was drawn before.
//
// The noise of a token depends on (seed, choice, position, token) alone, so that a sampled text is
// the same whatever the batch, the number of stages or a recovery, and a draft model can draw with
// the noise of the model that verifies it. Pure; the same on every machine with IEEE doubles:
// integer arithmetic, and logarithms of our own (exact_math.h) instead of the C library's.
#pragma once

#include <array>
#include <cstdint>

namespace paceline::sampling {

/// Philox-4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// The noise of one position of one answer. Thread-compatible: it keeps the last block it made.
///
/// Key: the seed. Counter: token / 2, choice, position (low, high); a block's 128 bits serve two
/// neighbouring tokens.
class PositionNoise {
 public:
  PositionNoise(std::uint64_t seed, std::uint32_t choice, std::uint64_t position);

  /// 64 uniform bits.
  std::uint64_t bits(std::uint32_t token);

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_;
};

/// v = ((bits >> 12) + 1/2) 2^-52, uniform in (0, 1), as a standard Gumbel number -log(-log(1 -
/// v)): the smaller v, the larger, at most 36.8.
double gumbel(std::uint64_t bits);
/// Not below gumbel(bits), nor more than 1.1 above where that is positive; a few integer
/// operations.
double gumbel_bound(std::uint64_t bits);

}  // namespace paceline::sampling
