#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "sampling/counter_random.h"
#include "sampling/exact_math.h"

namespace paceline::sampling {
namespace {

/// One vocabulary entry in the order of preference: by logit, the lower id first among equals.
struct Candidate {
  float logit = 0;
  std::uint32_t token = 0;
};

bool preferred(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

Candidate candidate(std::span<const float> logits, std::size_t token) {
  return {logits[token], static_cast<std::uint32_t>(token)};
}

/// The preferred entry of all; an error unless every logit is finite or -inf and one is finite.
Result<Candidate> best_of(std::span<const float> logits) {
  Candidate best = {-std::numeric_limits<float>::infinity(), 0};
  bool sound = true;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const float logit = logits[token];
    if (logit > best.logit) {
      best = candidate(logits, token);
    } else if (!(logit <= best.logit)) {
      sound = false;  // NaN; +inf would become the best
    }
  }
  if (sound && std::isfinite(best.logit)) return best;
  return fail(ErrorCode::kInternal, "logits are not finite");
}

/// The sum of e^(logit - max) over all, in the order of ids.
double exponential_sum(std::span<const float> logits, float max) {
  // What is 60 below adds less than 1e-26 of the largest term each.
  constexpr double kNegligible = -60;
  double sum = 0;
  for (const float logit : logits) {
    const double x = double{logit} - double{max};
    if (x > kNegligible) sum += exact_exp(x);
  }
  return sum;
}

/// The last of the k preferred entries, 0 < k < logits.size(). Keeps a buffer of at most 2k entries
/// and throws away its worse half when it is full: linear for any k, no sort.
Candidate last_of_top_k(std::span<const float> logits, std::size_t k) {
  std::vector<Candidate> buffer;
  buffer.reserve(std::min(2 * k, logits.size()));
  Candidate cutoff = {-std::numeric_limits<float>::infinity(),
                      std::numeric_limits<std::uint32_t>::max()};
  const auto shrink = [&] {
    const auto last = buffer.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(buffer.begin(), last, buffer.end(), preferred);
    cutoff = *last;
    buffer.resize(k);
  };
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const Candidate next = candidate(logits, token);
    if (!preferred(next, cutoff)) continue;
    buffer.push_back(next);
    if (buffer.size() == 2 * k) shrink();
  }
  if (buffer.size() > k) shrink();
  // More than k entries came in, so at least k are here; the greatest in this order is the worst.
  return *std::max_element(buffer.begin(), buffer.end(), preferred);
}

/// The entries that may be drawn: those not after `last` in the order of preference.
class Nucleus {
 public:
  Nucleus(std::span<const float> logits, float max, double temperature)
      : logits_(logits), max_(max), temperature_(temperature) {}

  void keep_top_k(std::uint32_t k) {
    if (k > 0 && k < logits_.size()) last_ = last_of_top_k(logits_, k);
  }

  void keep_top_p(double top_p) {
    if (top_p >= 1) return;
    double mass = 0;
    for (std::size_t token = 0; token < logits_.size(); ++token) {
      if (holds(candidate(logits_, token))) mass += exact_exp(scaled(logits_[token]));
    }
    // Entries of less than (1 - top_p) mass / (2 N) each have less than half of 1 - top_p together,
    // so top_p is reached before the first of them. mass >= 1, the likeliest entry's.
    const double lowest =
        exact_log(mass * (1 - top_p) / (2.0 * static_cast<double>(logits_.size())));
    std::vector<Candidate> kept;
    for (std::size_t token = 0; token < logits_.size(); ++token) {
      const Candidate next = candidate(logits_, token);
      if (scaled(next.logit) >= lowest && holds(next)) kept.push_back(next);
    }
    // Sorted piece by piece, from the likeliest: a peaked distribution needs the first piece only.
    double sum = 0;
    auto begin = kept.begin();
    for (std::ptrdiff_t piece = 64; begin != kept.end(); piece *= 4) {
      const auto end = begin + std::min(piece, kept.end() - begin);
      std::nth_element(begin, end - 1, kept.end(), preferred);
      std::sort(begin, end, preferred);
      for (; begin != end; ++begin) {
        sum += exact_exp(scaled(begin->logit));
        last_ = *begin;
        if (sum >= top_p * mass) return;
      }
    }
  }

  /// The entry with the highest scaled logit + noise; the lowest id among equals.
  std::uint32_t draw(PositionNoise noise, std::uint32_t likeliest) const {
    std::uint32_t chosen = likeliest;
    double best = scaled(max_) + gumbel(noise.bits(likeliest));
    constexpr double kHighestGumbel = 36.8;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      const Candidate next = candidate(logits_, i);
      const double x = scaled(next.logit);
      // Nearly all are out by the bounds, without a logarithm.
      if (x + kHighestGumbel < best || !holds(next)) continue;
      const std::uint64_t bits = noise.bits(next.token);
      if (x + gumbel_bound(bits) < best) continue;
      const double score = x + gumbel(bits);
      if (score > best || (score == best && next.token < chosen)) {
        best = score;
        chosen = next.token;
      }
    }
    return chosen;
  }

 private:
  double scaled(float logit) const { return (double{logit} - double{max_}) / temperature_; }
  bool holds(const Candidate& entry) const { return !preferred(last_, entry); }

  std::span<const float> logits_;
  float max_;
  double temperature_;
  Candidate last_ = {-std::numeric_limits<float>::infinity(),
                     std::numeric_limits<std::uint32_t>::max()};
};

}  // namespace

Status check(const SamplingSpec& spec) {
  if (!std::isfinite(spec.temperature) || spec.temperature < 0) {
    return fail(ErrorCode::kInvalidArgument, "temperature: expected a number of at least 0, got {}",
                spec.temperature);
  }
  if (!(spec.top_p > 0 && spec.top_p <= 1)) {
    return fail(ErrorCode::kInvalidArgument,
                "top_p: expected a number above 0 and of at most 1, got {}", spec.top_p);
  }
  return {};
}

Result<Sample> sample(std::span<const float> logits, const SamplingSpec& spec,
                      std::uint64_t position) {
  PACELINE_RETURN_IF_ERROR(check(spec));
  if (logits.size() > std::size_t{1} << 31) {
    return fail(ErrorCode::kInvalidArgument, "logits: expected at most 2^31, got {}",
                logits.size());
  }
  PACELINE_ASSIGN_OR_RETURN(const Candidate best, best_of(logits));
  std::uint32_t token = best.token;
  if (spec.temperature > 0) {
    Nucleus nucleus(logits, best.logit, spec.temperature);
    nucleus.keep_top_k(spec.top_k);
    nucleus.keep_top_p(spec.top_p);
    token = nucleus.draw(PositionNoise(spec.seed, spec.choice, position), best.token);
  }
  const double sum = exponential_sum(logits, best.logit);
  return Sample{token, double{logits[token]} - double{best.logit} - exact_log(sum)};
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
