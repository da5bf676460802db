// Pieces of a decoder graph in the shapes that OpenVINO's plugins recognise and fuse: norms, heads,
// activations, KV states. They hold no weights of their own. Shapes: B sequences, T new tokens, S
// all tokens (past and new), N heads, D head size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <openvino/core/node_output.hpp>
#include <openvino/core/node_vector.hpp>
#include <openvino/op/sink.hpp>

#include "model/decoder_config.h"

namespace paceline::compiler {

using Output = ov::Output<ov::Node>;

template <typename Node, typename... Args>
Output make_node(Args&&... args) {
  return std::make_shared<Node>(std::forward<Args>(args)...);
}

/// An i64 constant: a vector, or a scalar.
Output integers(const std::vector<std::int64_t>& values);
Output integer(std::int64_t value);
/// An f32 constant.
Output real(const ov::Shape& shape, const std::vector<float>& values);

/// Element `index` of the shape of `x`: as a vector of one, or a scalar.
Output dimension(const Output& x, std::int64_t index);
Output scalar_dimension(const Output& x, std::int64_t index);

/// `x` itself where `factor` is 1.
Output multiplied(const Output& x, float factor);
/// cap * tanh(x / cap); `x` itself where `cap` is 0.
Output softcapped(const Output& x, float cap);
Output activated(const Output& x, model::Activation activation);

/// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (RMSNorm, Zhang and Sennrich
/// 2019).
Output rms_norm(const Output& x, const Output& weight, float epsilon);

/// [B, T, N*D] -> [B, T, N, D].
Output split_heads(const Output& x, std::int64_t heads, std::int64_t head_size);
/// [B, T, N, D] -> [B, N, T, D].
Output heads_first(const Output& x);
/// [B, N, T, D] -> [B, T, N*D].
Output merge_heads(const Output& x, std::int64_t width);

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

}  // namespace paceline::compiler
