// Strong ids and ranges: numbers of different meaning that the compiler keeps apart.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace paceline {

template <typename Tag, typename Number>
class StrongId {
 public:
  using number_type = Number;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Number value) : value_(value) {}
  constexpr Number value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Number value_ = 0;
};

using ChainId = StrongId<struct ChainIdTag, std::uint64_t>;
/// Counts the remakes of one chain; frames of an earlier epoch are refused.
using Epoch = StrongId<struct EpochTag, std::uint32_t>;
/// Place in the route of a chain, from 0.
using StageId = StrongId<struct StageIdTag, std::uint32_t>;
using StepId = StrongId<struct StepIdTag, std::uint64_t>;
using SequenceId = StrongId<struct SequenceIdTag, std::uint64_t>;
/// A logical KV block, the same number in every stage of a chain.
using BlockId = StrongId<struct BlockIdTag, std::uint32_t>;

/// Decoder layers [begin, end).
struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  constexpr std::uint32_t size() const { return end - begin; }
  friend constexpr bool operator==(LayerRange, LayerRange) = default;
};

}  // namespace paceline

template <typename Tag, typename Number>
struct std::hash<paceline::StrongId<Tag, Number>> {
  std::size_t operator()(paceline::StrongId<Tag, Number> id) const noexcept {
    return std::hash<Number>()(id.value());
  }
};
