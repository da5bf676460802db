// What a configuration may ask for at most, whatever its source.
#pragma once

#include <cstdint>

namespace paceline::model {

inline constexpr std::uint32_t kMaxLayers = 1024;
inline constexpr std::uint32_t kMaxSize = 1U << 20;  ///< of hidden and feed-forward vectors
inline constexpr std::uint32_t kMaxHeads = 1U << 14;
inline constexpr std::uint32_t kMaxExperts = 1U << 12;
inline constexpr std::uint32_t kMaxContext = INT32_MAX;
inline constexpr std::uint32_t kMaxVocabulary = INT32_MAX;

}  // namespace paceline::model
