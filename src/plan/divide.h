// Dividing a model's layers over the stages of a chain by the bytes that each stage has to read.
//
// Decode is bound by memory: a step of one stage takes about as long as reading its weights. This
// is the division without measured profiles; the planner's cost model is another file's concern.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace paceline::plan {

/// What a stage reads, in bytes.
struct LayerCosts {
  std::vector<std::uint64_t> layers;  ///< one per layer, all of them decoder layers
  std::uint64_t first = 0;            ///< of the first stage besides its layers: the embedding
  std::uint64_t last = 0;             ///< of the last stage besides its layers: norm and head
  std::uint64_t each = 0;             ///< of every stage besides its layers
};

/// Contiguous ranges, one per weight and each of at least one layer, that cover all layers and make
/// the largest of bytes / weight as small as it can be: weight 2 is a stage that may read twice as
/// much in the same time. Exact, by dynamic programming over (stages, layers) [the linear partition
/// problem, e.g. Skiena, The Algorithm Design Manual, 10.7], O(stages x layers^2) at worst. Among
/// equals, the later stages get as few layers as possible, the last one first. kInvalidArgument: no
/// stage, more stages than layers, a weight that is not a positive number, or a total beyond 2^53
/// bytes.
Result<std::vector<LayerRange>> divide_by_weights(const LayerCosts& costs,
                                                  const std::vector<double>& weights);

/// The same for `stages` stages of equal weight.
Result<std::vector<LayerRange>> divide(const LayerCosts& costs, std::uint32_t stages);

/// Bytes that the stage of `range` reads.
std::uint64_t stage_bytes(const LayerCosts& costs, LayerRange range);

/// "10,20" as {10, 20}: positive decimal numbers between commas, at most 1024.
Result<std::vector<double>> parse_weights(std::string_view text);

}  // namespace paceline::plan
