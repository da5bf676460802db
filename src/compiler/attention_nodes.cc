#include "compiler/attention_nodes.h"

#include <cmath>

#include <openvino/opsets/opset13.hpp>

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;
using model::DecoderConfig;

constexpr float kMasked = -65504.0F;  ///< the lowest f16

Output range(const Output& begin, const Output& end) {
  return make_node<op::Range>(begin, end, integer(1), ov::element::i64);
}

Output both(const Output& a, const Output& b) { return make_node<op::BitwiseAnd>(a, b); }

Output always() { return op::Constant::create(ov::element::boolean, {}, std::vector<bool>{true}); }

Output zero_where(const Output& visible) {
  return make_node<op::Select>(visible, real({1, 1, 1, 1}, {0.0F}), real({1, 1, 1, 1}, {kMasked}));
}

/// Each key/value head `times` times in a row: [B, N, S, D] -> [B, N*times, S, D].
Output repeat_heads(const Output& x, std::int64_t heads, std::int64_t times) {
  if (times == 1) return x;
  const Output shape = make_node<op::ShapeOf>(x, ov::element::i64);
  const Output head = make_node<op::Gather>(shape, integers({0, 1}), integer(0));
  const Output tail = make_node<op::Gather>(shape, integers({2, 3}), integer(0));
  const Output target = make_node<op::Concat>(ov::OutputVector{head, integers({times}), tail}, 0);
  const Output repeated = make_node<op::Broadcast>(make_node<op::Unsqueeze>(x, integers({2})),
                                                   target, ov::op::BroadcastType::BIDIRECTIONAL);
  const std::int64_t head_size = x.get_partial_shape()[3].get_length();
  return make_node<op::Reshape>(repeated, integers({0, heads * times, -1, head_size}), true);
}

Output fused_attention(const Output& query, const Output& keys, const Output& values,
                       const Output& mask, const DecoderConfig& config) {
  const std::int64_t kv_heads = config.key_value_heads;
  const std::int64_t sharing = config.attention_heads / config.key_value_heads;
  const Output all_keys = repeat_heads(keys, kv_heads, sharing);
  const Output all_values = repeat_heads(values, kv_heads, sharing);
  if (config.attention_scale == 0.0F) {
    return make_node<op::ScaledDotProductAttention>(query, all_keys, all_values, mask, false);
  }
  return make_node<op::ScaledDotProductAttention>(query, all_keys, all_values, mask,
                                                  real({}, {config.attention_scale}), false);
}

/// Queries that share a key head are rows of one product, so that the states are not repeated.
Output capped_attention(const Output& query, const Output& keys, const Output& values,
                        const Output& mask, const DecoderConfig& config) {
  const std::int64_t kv_heads = config.key_value_heads;
  const std::int64_t heads = config.attention_heads;
  const std::int64_t size = config.head_size;
  const float scale = config.attention_scale == 0.0F ? 1.0F / std::sqrt(static_cast<float>(size))
                                                     : config.attention_scale;
  const Output rows = make_node<op::Reshape>(query, integers({0, kv_heads, -1, size}), true);
  const Output products = multiplied(make_node<op::MatMul>(rows, keys, false, true), scale);
  const Output capped = softcapped(products, config.attention_softcap);
  const Output per_head = make_node<op::Concat>(
      ov::OutputVector{integers({0, heads}), dimension(query, 2), integers({-1})}, 0);
  const Output scores = make_node<op::Reshape>(capped, per_head, true);
  const Output weights = make_node<op::Softmax>(make_node<op::Add>(scores, mask), -1);
  const Output shared =
      make_node<op::Concat>(ov::OutputVector{integers({0, kv_heads, -1}), dimension(keys, 2)}, 0);
  const Output mixed =
      make_node<op::MatMul>(make_node<op::Reshape>(weights, shared, true), values, false, false);
  return make_node<op::Reshape>(mixed, integers({0, heads, -1, size}), true);
}

}  // namespace

Output AttentionMasks::get(std::uint32_t window) {
  if (const auto found = made_.find(window); found != made_.end()) return found->second;
  if (keys_.get_node() == nullptr) make_common();
  return made_.emplace(window, window == 0 ? whole() : windowed(window)).first->second;
}

void AttentionMasks::make_common() {
  const Output all = scalar_dimension(attention_mask_, 1);
  const Output fresh = scalar_dimension(position_ids_, 1);
  const Output past = make_node<op::Subtract>(all, fresh);
  keys_ = make_node<op::Unsqueeze>(range(integer(0), all), integers({0, 1, 2}));
  queries_ = make_node<op::Unsqueeze>(range(past, all), integers({0, 1, 3}));
  causal_ = make_node<op::LessEqual>(keys_, queries_);
  present_ = make_node<op::Unsqueeze>(make_node<op::Convert>(attention_mask_, ov::element::boolean),
                                      integers({1, 2}));
}

Output AttentionMasks::whole() const { return zero_where(both(present_, causal_)); }

/// The nodes are those by which SDPAToPagedAttention finds the window (a negative constant added to
/// the queries' places); without any one of them, the true constants included, the paged form would
/// see all tokens.
Output AttentionMasks::windowed(std::uint32_t window) const {
  const Output first = make_node<op::Add>(queries_, integer(-static_cast<std::int64_t>(window)));
  const Output inside = make_node<op::Greater>(keys_, first);
  const Output visible = both(both(always(), both(both(always(), inside), causal_)), present_);
  const Output shape = make_node<op::Concat>(
      ov::OutputVector{dimension(attention_mask_, 0), integers({1}), dimension(position_ids_, 1),
                       dimension(attention_mask_, 1)},
      0);
  return zero_where(make_node<op::Broadcast>(visible, shape, ov::op::BroadcastType::BIDIRECTIONAL));
}

Output attend(const Output& query, const Output& keys, const Output& values, const Output& mask,
              const DecoderConfig& config) {
  if (config.attention_softcap != 0.0F) return capped_attention(query, keys, values, mask, config);
  return fused_attention(query, keys, values, mask, config);
}

}  // namespace paceline::compiler
