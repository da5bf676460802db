// How a sequence's tokens are chosen. Sent once, when the sequence is opened.
#pragma once

#include <cstdint>

namespace paceline::sampling {

struct SamplingSpec {
  double temperature = 0.0;  ///< 0: greedy (the highest logit, the lowest id among equals)
  double top_p = 1.0;        ///< keep the likeliest tokens up to this probability mass
  std::uint32_t top_k = 0;   ///< keep the k likeliest; 0: all
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  ///< which of n answers to one prompt
  friend bool operator==(const SamplingSpec&, const SamplingSpec&) = default;
};

}  // namespace paceline::sampling
