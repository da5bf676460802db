// Rotary positions (RoFormer, Su et al. 2021) and the ways in which models stretch them beyond the
// length that they were trained for: the frequencies, their part of the graph, and the turning.
#pragma once

#include <cstdint>
#include <vector>

#include <openvino/core/node_output.hpp>

#include "model/decoder_config.h"

namespace paceline::compiler {

/// Angles per token of the pairs (i, i + R/2) of a head, R = `dimensions`: R/2 of them, before
/// scaling by length (dynamic) and with `factors` (longrope; empty: none) as divisors. As in
/// Hugging Face's modeling_rope_utils, in f32 where that is f32.
std::vector<float> rope_frequencies(const model::RopeConfig& rope, std::uint32_t dimensions,
                                    const std::vector<float>& factors);

/// Cosines and sines [B, 1, T, R].
struct RopeTables {
  ov::Output<ov::Node> cosine;
  ov::Output<ov::Node> sine;
};

/// Tables of `position_ids` [B, T], halves repeated. Where the frequencies depend on the length
/// (dynamic, longrope), that is the largest position of the row plus one, so that a sequence does
/// not depend on others of its batch. In the paged form each token is a row: a prompt's tokens then
/// have the frequencies that they would have had if it had been fed token by token.
RopeTables rope_tables(const ov::Output<ov::Node>& position_ids, const model::RopeConfig& rope,
                       std::uint32_t dimensions);

/// Turns the pairs (i, i + R/2) of the first R = `dimensions` of each head of `x` [B, N, T, D]; the
/// rest passes through.
ov::Output<ov::Node> apply_rope(const ov::Output<ov::Node>& x, const RopeTables& tables,
                                std::uint32_t dimensions);

}  // namespace paceline::compiler
