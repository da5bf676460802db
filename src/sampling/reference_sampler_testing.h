// Sampling by its plain definition, for comparison in tests and benchmarks: everything is sorted,
// every token's noise is looked at, sums are of doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "sampling/counter_random.h"
#include "sampling/sampling_spec.h"

namespace paceline::sampling {

/// softmax(logits / temperature).
inline std::vector<double> softmax(std::span<const float> logits, double temperature) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  p.reserve(logits.size());
  for (const float logit : logits) p.push_back(std::exp((logit - max) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

/// Which tokens the cuts leave.
inline std::vector<bool> reference_set(std::span<const float> logits, const SamplingSpec& spec) {
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  const double lowest = logits[order[0]] + spec.temperature * std::log(spec.min_p);
  while (logits[order.back()] < lowest) order.pop_back();
  if (spec.top_k > 0 && spec.top_k < order.size()) order.resize(spec.top_k);
  std::vector<float> left;
  for (const std::uint32_t token : order) left.push_back(logits[token]);
  const std::vector<double> p = softmax(left, spec.temperature);
  std::vector<bool> kept(logits.size(), false);
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    kept[order[i]] = true;
    sum += p[i];
    if (spec.top_p < 1 && sum >= spec.top_p) break;
  }
  return kept;
}

inline std::uint32_t reference_token(std::span<const float> logits, const SamplingSpec& spec,
                                     std::uint64_t position) {
  if (spec.temperature == 0) {
    return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) -
                                      logits.begin());
  }
  const std::vector<bool> kept = reference_set(logits, spec);
  PositionNoise noise(spec.seed, spec.choice, position);
  std::uint32_t best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  for (std::uint32_t token = 0; token < logits.size(); ++token) {
    if (!kept[token]) continue;
    const double score = logits[token] / spec.temperature + gumbel(noise.bits(token));
    if (score > best_score) {
      best = token;
      best_score = score;
    }
  }
  return best;
}

/// Pearson's statistic of counts against expected counts.
inline double chi_square(const std::vector<double>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  return sum;
}

}  // namespace paceline::sampling
