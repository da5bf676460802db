#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "sampling/counter_random.h"
#include "sampling/exact_math.h"

namespace paceline::sampling {
namespace {

Result<Row> sound_row(std::span<const float> logits, Workspace& workspace) {
  if (logits.size() > kMaxEntries) {
    return fail(ErrorCode::kInvalidArgument, "logits: expected at most {}, got {}", kMaxEntries,
                logits.size());
  }
  Row row;
  if (scan_row(logits, workspace, row)) return row;
  return fail(ErrorCode::kInternal, "logits are not finite");
}

/// Finds the candidate with the highest scaled logit + noise; the lowest id among equals.
class NoisyMaximum {
 public:
  NoisyMaximum(const Row& row, const SamplingSpec& spec, std::uint64_t position)
      : max_(row.max),
        temperature_(spec.temperature),
        key_{{static_cast<std::uint32_t>(spec.seed), static_cast<std::uint32_t>(spec.seed >> 32)},
             {spec.choice, static_cast<std::uint32_t>(position),
              static_cast<std::uint32_t>(position >> 32)}} {
    // The likeliest is never cut. With its score nearly all others are out by a bound.
    const Candidate likeliest = best_of(row);
    std::array<std::uint64_t, 1> bits = {};
    row_kernels().noise(std::span(&likeliest.token, 1), key_, bits.data());
    chosen_ = likeliest.token;
    best_ = scaled(likeliest.logit) + gumbel(bits[0]);
  }

  std::uint32_t of_all(const Row& row) {
    std::array<std::uint64_t, kBlock> bits;
    for (std::size_t block = 0; block < row.block_max.size(); ++block) {
      const double highest = scaled(row.block_max[block]);
      if (highest + kHighestGumbel < best_) continue;
      const auto first = static_cast<std::uint32_t>(block * kBlock);
      const std::uint32_t least = row_kernels().noise_range(first, key_, bits.data());
      if (highest + highest_noise(least) < best_) continue;
      const std::size_t count = std::min(kBlock, row.logits.size() - first);
      for (std::uint32_t i = 0; i < count; ++i) offer(row.logits[first + i], first + i, bits[i]);
    }
    return chosen_;
  }

  std::uint32_t of_list(std::span<const float> logits, std::span<const std::uint32_t> tokens) {
    std::array<std::uint64_t, kBlock> bits;
    for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
      const std::size_t count = std::min(kBlock, logits.size() - begin);
      const std::uint32_t least =
          row_kernels().noise(tokens.subspan(begin, count), key_, bits.data());
      if (highest_noise(least) < best_) continue;  // a scaled logit is at most 0
      for (std::size_t i = 0; i < count; ++i) offer(logits[begin + i], tokens[begin + i], bits[i]);
    }
    return chosen_;
  }

 private:
  static constexpr double kHighestGumbel = 36.8;

  double scaled(float logit) const { return (double{logit} - max_) / temperature_; }
  /// A bound for noise whose bits have an upper half of `least` or more.
  static double highest_noise(std::uint32_t least) {
    return gumbel_bound(std::uint64_t{least} << 32);
  }

  void offer(float logit, std::uint32_t token, std::uint64_t bits) {
    const double x = scaled(logit);
    if (x + gumbel_bound(bits) < best_) return;
    const double score = x + gumbel(bits);
    if (score > best_ || (score == best_ && token < chosen_)) {
      best_ = score;
      chosen_ = token;
    }
  }

  double max_;
  double temperature_;
  NoiseKey key_;
  double best_ = 0;
  std::uint32_t chosen_ = 0;
};

/// The lowest logit that min_p keeps.
float lowest_kept(const Row& row, const SamplingSpec& spec) {
  const double lowest = double{row.max} + spec.temperature * exact_log(spec.min_p);
  if (lowest < double{std::numeric_limits<float>::lowest()}) {
    return std::numeric_limits<float>::lowest();
  }
  const auto rounded = static_cast<float>(lowest);
  return double{rounded} < lowest ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
                                  : rounded;
}

}  // namespace

Result<std::uint32_t> draw(std::span<const float> logits, const SamplingSpec& spec,
                           std::uint64_t position, Workspace& workspace) {
  PACELINE_ASSIGN_OR_RETURN(const Row row, sound_row(logits, workspace));
  if (spec.temperature == 0) return best_of(row).token;
  Candidates candidates(row, workspace);
  // A share too small for exact_log keeps all.
  if (spec.min_p >= std::numeric_limits<double>::min()) {
    candidates.keep_from(lowest_kept(row, spec));
  }
  candidates.keep_top_k(spec.top_k);
  candidates.keep_top_p(spec.top_p, spec.temperature);
  NoisyMaximum maximum(row, spec, position);
  return candidates.has_all() ? maximum.of_all(row)
                              : maximum.of_list(candidates.logits(), candidates.tokens());
}

Result<Sample> describe(std::span<const float> logits, std::uint32_t token, std::uint32_t top,
                        Workspace& workspace) {
  PACELINE_ASSIGN_OR_RETURN(const Row row, sound_row(logits, workspace));
  if (token >= logits.size()) {
    return fail(ErrorCode::kInvalidArgument, "token {} is outside the vocabulary of {}", token,
                logits.size());
  }
  const std::uint64_t weight = row_kernels().total_weight(logits, {row.max, 1.0});
  const double log_sum = exact_log(static_cast<double>(weight) * std::ldexp(1.0, -kWeightBits));
  const auto logprob = [&](float logit) { return double{logit} - double{row.max} - log_sum; };
  Sample sample{token, logprob(logits[token]), {}};
  for (const Candidate& entry : top_of(row, top)) {
    sample.top.push_back({entry.token, logprob(entry.logit)});
  }
  return sample;
}

std::uint64_t logits_digest(std::span<const float> logits) {
  // Each step is a bijection of the state for a given word, and of the word for a given state.
  // The multiplier is 2^64 / golden ratio, odd.
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  std::uint64_t state = (logits.size() + 1) * kMultiplier;
  const auto mix = [&state](std::uint64_t word) {
    state = (state ^ word) * kMultiplier;
    state ^= state >> 32;
  };
  std::size_t i = 0;
  for (; i + 1 < logits.size(); i += 2) {
    mix(std::uint64_t{std::bit_cast<std::uint32_t>(logits[i])} |
        std::uint64_t{std::bit_cast<std::uint32_t>(logits[i + 1])} << 32);
  }
  if (i < logits.size()) mix(std::bit_cast<std::uint32_t>(logits[i]));
  mix(0);
  return state == 0 ? 1 : state;
}

}  // namespace paceline::sampling
