// Attention over the KV states: which tokens a query may see, and the two forms in which it is
// computed. Shapes as in decoder_nodes.h.
#pragma once

#include <cstdint>
#include <map>

#include <openvino/core/node_output.hpp>

#include "compiler/decoder_nodes.h"
#include "model/decoder_config.h"

namespace paceline::compiler {

/// Masks [B, 1, T, S] f32: 0 where a token may be seen (attention_mask is not 0, it is not later
/// and inside the window), a large negative number elsewhere; finite, so that a row of padding
/// gives numbers, not NaN. One of each window, made when it is first asked for.
class AttentionMasks {
 public:
  AttentionMasks(const Output& attention_mask, const Output& position_ids)
      : attention_mask_(attention_mask), position_ids_(position_ids) {}

  /// `window` tokens up to a query's own; 0: all.
  Output get(std::uint32_t window);

 private:
  void make_common();
  Output whole() const;
  Output windowed(std::uint32_t window) const;

  Output attention_mask_;
  Output position_ids_;
  Output keys_;     ///< [1, 1, 1, S] places
  Output queries_;  ///< [1, 1, T, 1] places
  Output causal_;   ///< [1, 1, T, S]
  Output present_;  ///< [B, 1, 1, S]
  std::map<std::uint32_t, Output> made_;
};

/// softmax(query * keys^T * scale + mask) * values: [B, N, T, D] of queries [B, N, T, D] and states
/// [B, N/g, S, D], g queries sharing a key head. ScaledDotProductAttention, which plugins join with
/// the KV cache and SDPAToPagedAttention turns into paged attention; with a soft cap of the scores,
/// which that operation does not have, plain products and a softmax.
Output attend(const Output& query, const Output& keys, const Output& values, const Output& mask,
              const model::DecoderConfig& config);

}  // namespace paceline::compiler
