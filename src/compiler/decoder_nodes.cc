#include "compiler/decoder_nodes.h"

#include <openvino/op/util/variable.hpp>
#include <openvino/opsets/opset13.hpp>

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;

}  // namespace

Output integers(const std::vector<std::int64_t>& values) {
  return op::Constant::create(ov::element::i64, {values.size()}, values);
}

Output integer(std::int64_t value) {
  return op::Constant::create(ov::element::i64, {}, std::vector<std::int64_t>{value});
}

Output real(const ov::Shape& shape, const std::vector<float>& values) {
  return op::Constant::create(ov::element::f32, shape, values);
}

Output dimension(const Output& x, std::int64_t index) {
  return make_node<op::Gather>(make_node<op::ShapeOf>(x, ov::element::i64), integers({index}),
                               integer(0));
}

Output scalar_dimension(const Output& x, std::int64_t index) {
  return make_node<op::Gather>(make_node<op::ShapeOf>(x, ov::element::i64), integer(index),
                               integer(0));
}

Output multiplied(const Output& x, float factor) {
  if (factor == 1.0F) return x;
  return make_node<op::Multiply>(x, real({}, {factor}));
}

Output softcapped(const Output& x, float cap) {
  if (cap == 0.0F) return x;
  const Output divided = make_node<op::Divide>(x, real({}, {cap}));
  return make_node<op::Multiply>(make_node<op::Tanh>(divided), real({}, {cap}));
}

Output activated(const Output& x, model::Activation activation) {
  if (activation == model::Activation::kGeluTanh) {
    return make_node<op::Gelu>(x, ov::op::GeluApproximationMode::TANH);
  }
  return make_node<op::Swish>(x);
}

Output rms_norm(const Output& x, const Output& weight, float epsilon) {
  const Output square = make_node<op::Power>(x, real({1, 1, 1}, {2.0F}));
  const Output mean = make_node<op::ReduceMean>(square, integers({-1}), true);
  const Output root = make_node<op::Sqrt>(make_node<op::Add>(mean, real({1, 1, 1}, {epsilon})));
  const Output inverse = make_node<op::Divide>(real({1, 1, 1}, {1.0F}), root);
  return make_node<op::Multiply>(weight, make_node<op::Multiply>(x, inverse));
}

Output split_heads(const Output& x, std::int64_t heads, std::int64_t head_size) {
  return make_node<op::Reshape>(x, integers({0, 0, heads, head_size}), true);
}

Output heads_first(const Output& x) { return make_node<op::Transpose>(x, integers({0, 2, 1, 3})); }

Output merge_heads(const Output& x, std::int64_t width) {
  const Output swapped = make_node<op::Transpose>(x, integers({0, 2, 1, 3}));
  return make_node<op::Reshape>(swapped, integers({0, 0, width}), true);
}

KvStates::KvStates(const Output& position_ids, const Output& beam_idx,
                   const model::DecoderConfig& config)
    : beam_idx_(beam_idx), shape_{-1, config.key_value_heads, -1, config.head_size} {
  const Output empty = make_node<op::Concat>(
      ov::OutputVector{dimension(position_ids, 0),
                       integers({config.key_value_heads, 0, config.head_size})},
      0);
  initial_ = make_node<op::Broadcast>(real({}, {0.0F}), empty);
}

Output KvStates::append(const Output& fresh, const std::string& variable) {
  const auto state = std::make_shared<ov::op::util::Variable>(
      ov::op::util::VariableInfo{shape_, ov::element::f32, variable});
  const Output past = make_node<op::ReadValue>(initial_, state);
  const Output reordered = make_node<op::Gather>(past, beam_idx_, integer(0));
  const Output all = make_node<op::Concat>(ov::OutputVector{reordered, fresh}, 2);
  sinks_.push_back(std::make_shared<op::Assign>(all, state));
  return all;
}

}  // namespace paceline::compiler
