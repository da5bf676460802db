#include "compiler/decoder_nodes.h"

#include <cmath>
#include <limits>
#include <memory>

#include <openvino/op/util/variable.hpp>
#include <openvino/opsets/opset13.hpp>

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;
using model::DecoderConfig;

constexpr float kMasked = -65504.0F;  ///< the lowest f16

template <typename Node, typename... Args>
Output make(Args&&... args) {
  return std::make_shared<Node>(std::forward<Args>(args)...);
}

Output real(const ov::Shape& shape, const std::vector<float>& values) {
  return op::Constant::create(ov::element::f32, shape, values);
}

/// Element `index` of the shape of `x`, as a vector of one.
Output dimension(const Output& x, std::int64_t index) {
  return make<op::Gather>(make<op::ShapeOf>(x, ov::element::i64), integers({index}), integer(0));
}

Output scalar_dimension(const Output& x, std::int64_t index) {
  return make<op::Gather>(make<op::ShapeOf>(x, ov::element::i64), integer(index), integer(0));
}

Output range(const Output& begin, const Output& end) {
  return make<op::Range>(begin, end, integer(1), ov::element::i64);
}

/// [begin, end) of the last of four dimensions.
Output slice_last(const Output& x, std::int64_t begin, std::int64_t end) {
  return make<op::Slice>(x, integers({begin}), integers({end}), integers({1}), integers({3}));
}

}  // namespace

Output integers(const std::vector<std::int64_t>& values) {
  return op::Constant::create(ov::element::i64, {values.size()}, values);
}

Output integer(std::int64_t value) {
  return op::Constant::create(ov::element::i64, {}, std::vector<std::int64_t>{value});
}

Output rms_norm(const Output& x, const Output& weight, float epsilon) {
  const Output square = make<op::Power>(x, real({1, 1, 1}, {2.0F}));
  const Output mean = make<op::ReduceMean>(square, integers({-1}), true);
  const Output root = make<op::Sqrt>(make<op::Add>(mean, real({1, 1, 1}, {epsilon})));
  const Output inverse = make<op::Divide>(real({1, 1, 1}, {1.0F}), root);
  return make<op::Multiply>(weight, make<op::Multiply>(x, inverse));
}

Output split_heads(const Output& x, std::int64_t heads, std::int64_t head_size) {
  const Output split = make<op::Reshape>(x, integers({0, 0, heads, head_size}), true);
  return make<op::Transpose>(split, integers({0, 2, 1, 3}));
}

Output merge_heads(const Output& x, std::int64_t width) {
  const Output swapped = make<op::Transpose>(x, integers({0, 2, 1, 3}));
  return make<op::Reshape>(swapped, integers({0, 0, width}), true);
}

RopeTables rope_tables(const Output& position_ids, const DecoderConfig& config,
                       const std::vector<float>& divisors) {
  const model::RopeConfig& rope = config.ropes[0];
  const std::size_t half = config.rope_dimensions / 2;
  std::vector<float> frequencies(half);
  for (std::size_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / config.rope_dimensions;
    const double divisor = divisors.empty() ? 1.0 : divisors[i];
    frequencies[i] = static_cast<float>(std::pow(static_cast<double>(rope.theta), exponent) /
                                        divisor / rope.factor);
  }
  const Output positions =
      make<op::Convert>(make<op::Unsqueeze>(position_ids, integers({1})), ov::element::f32);
  const Output target = make<op::Concat>(
      ov::OutputVector{dimension(position_ids, 0), integers({1}), integers({1})}, 0);
  const Output rows = make<op::Broadcast>(real({1, half, 1}, frequencies), target,
                                          ov::op::BroadcastType::BIDIRECTIONAL);
  const Output angles =
      make<op::Transpose>(make<op::MatMul>(rows, positions, false, false), integers({0, 2, 1}));
  const Output both = make<op::Concat>(ov::OutputVector{angles, angles}, -1);
  return {make<op::Unsqueeze>(make<op::Cos>(both), integers({1})),
          make<op::Unsqueeze>(make<op::Sin>(both), integers({1}))};
}

Output apply_rope(const Output& x, const RopeTables& tables, const DecoderConfig& config) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const std::int64_t rotary = config.rope_dimensions;
  const bool partial = config.rope_dimensions < config.head_size;
  const Output turned = partial ? slice_last(x, 0, rotary) : x;
  const Output negated =
      make<op::Multiply>(slice_last(turned, rotary / 2, kEnd), real({1, 1, 1, 1}, {-1.0F}));
  const Output swapped =
      make<op::Concat>(ov::OutputVector{negated, slice_last(turned, 0, rotary / 2)}, -1);
  const Output result = make<op::Add>(make<op::Multiply>(turned, tables.cosine),
                                      make<op::Multiply>(swapped, tables.sine));
  if (!partial) return result;
  return make<op::Concat>(ov::OutputVector{result, slice_last(x, rotary, kEnd)}, -1);
}

Output attention_mask(const Output& attention_mask, const Output& position_ids) {
  const Output all = scalar_dimension(attention_mask, 1);
  const Output fresh = scalar_dimension(position_ids, 1);
  const Output keys = make<op::Unsqueeze>(range(integer(0), all), integers({0}));
  const Output past = make<op::Subtract>(all, fresh);
  const Output queries = make<op::Unsqueeze>(range(past, all), integers({1}));
  const Output causal = make<op::LessEqual>(keys, queries);  // [T, S]
  const Output present = make<op::Unsqueeze>(
      make<op::Convert>(attention_mask, ov::element::boolean), integers({1, 2}));
  return make<op::Select>(make<op::LogicalAnd>(present, causal), real({1, 1, 1, 1}, {0.0F}),
                          real({1, 1, 1, 1}, {kMasked}));
}

KvStates::KvStates(const Output& position_ids, const Output& beam_idx, const DecoderConfig& config)
    : beam_idx_(beam_idx), shape_{-1, config.key_value_heads, -1, config.head_size} {
  const Output empty =
      make<op::Concat>(ov::OutputVector{dimension(position_ids, 0),
                                        integers({config.key_value_heads, 0, config.head_size})},
                       0);
  initial_ = make<op::Broadcast>(real({}, {0.0F}), empty);
}

Output KvStates::append(const Output& fresh, const std::string& variable) {
  const auto state = std::make_shared<ov::op::util::Variable>(
      ov::op::util::VariableInfo{shape_, ov::element::f32, variable});
  const Output past = make<op::ReadValue>(initial_, state);
  const Output reordered = make<op::Gather>(past, beam_idx_, integer(0));
  const Output all = make<op::Concat>(ov::OutputVector{reordered, fresh}, 2);
  sinks_.push_back(std::make_shared<op::Assign>(all, state));
  return all;
}

Output repeat_heads(const Output& x, std::int64_t heads, std::int64_t times) {
  if (times == 1) return x;
  const Output shape = make<op::ShapeOf>(x, ov::element::i64);
  const Output head = make<op::Gather>(shape, integers({0, 1}), integer(0));
  const Output tail = make<op::Gather>(shape, integers({2, 3}), integer(0));
  const Output target = make<op::Concat>(ov::OutputVector{head, integers({times}), tail}, 0);
  const Output repeated = make<op::Broadcast>(make<op::Unsqueeze>(x, integers({2})), target,
                                              ov::op::BroadcastType::BIDIRECTIONAL);
  const std::int64_t head_size = x.get_partial_shape()[3].get_length();
  return make<op::Reshape>(repeated, integers({0, heads * times, -1, head_size}), true);
}

}  // namespace paceline::compiler
