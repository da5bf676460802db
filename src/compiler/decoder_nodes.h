// Pieces of a decoder graph in the shapes that OpenVINO's plugins recognise and fuse: norms, rope,
// masks, KV states. They hold no weights of their own. Shapes: B sequences, T new tokens, S all
// tokens (past and new), N heads, D head size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <openvino/core/node_output.hpp>
#include <openvino/core/node_vector.hpp>
#include <openvino/op/sink.hpp>

#include "model/decoder_config.h"

namespace paceline::compiler {

using Output = ov::Output<ov::Node>;

/// An i64 constant: a vector, or a scalar.
Output integers(const std::vector<std::int64_t>& values);
Output integer(std::int64_t value);

/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (RMSNorm, Zhang and Sennrich
/// 2019).
Output rms_norm(const Output& x, const Output& weight, float epsilon);

/// [B, T, N*D] -> [B, N, T, D] and back.
Output split_heads(const Output& x, std::int64_t heads, std::int64_t head_size);
Output merge_heads(const Output& x, std::int64_t width);

/// Tables of one model: [B, 1, T, R], R = config.rope_dimensions.
struct RopeTables {
  Output cosine;
  Output sine;
};

/// Angles of `position_ids` [B, T] after RoFormer (Su et al. 2021), halves repeated. `divisors`
/// (R/2 of them, or none) stretch each frequency.
RopeTables rope_tables(const Output& position_ids, const model::DecoderConfig& config,
                       const std::vector<float>& divisors);
/// Turns the pairs (i, i + R/2) of the first R of each head's D; the rest passes through.
Output apply_rope(const Output& x, const RopeTables& tables, const model::DecoderConfig& config);

/// [B, 1, T, S] f32: 0 where a token may be seen (attention_mask is not 0 and it is not later), a
/// large negative number elsewhere; finite, so that a row of padding gives numbers, not NaN.
Output attention_mask(const Output& attention_mask, const Output& position_ids);

/// One state of a layer, [B, N, S, D] f32.
class KvStates {
 public:
  KvStates(const Output& position_ids, const Output& beam_idx, const model::DecoderConfig& config);
  /// past (reordered by beam_idx) and `fresh` [B, N, T, D] along S, kept under `variable`.
  Output append(const Output& fresh, const std::string& variable);
  const ov::SinkVector& sinks() const { return sinks_; }

 private:
  Output initial_;
  Output beam_idx_;
  ov::PartialShape shape_;
  ov::SinkVector sinks_;
};

/// Each key/value head `times` times in a row: [B, N, S, D] -> [B, N*times, S, D].
Output repeat_heads(const Output& x, std::int64_t heads, std::int64_t times);

}  // namespace paceline::compiler
