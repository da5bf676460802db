#include "compiler/expert_nodes.h"

#include <openvino/opsets/opset13.hpp>

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;
using model::DecoderConfig;

/// Weights of each token's experts, 0 for those that were not chosen: [E, tokens, 1].
Output route(const Output& tokens, const Output& router, const DecoderConfig& config) {
  const std::int64_t count = config.experts.count;
  const Output probabilities =
      make_node<op::Softmax>(make_node<op::MatMul>(tokens, router, false, true), -1);
  const auto best = std::make_shared<op::TopK>(probabilities, integer(config.experts.used), -1,
                                               op::TopK::Mode::MAX, op::TopK::SortType::SORT_VALUES,
                                               ov::element::i64);
  const Output indices = make_node<op::Convert>(best->output(1), ov::element::i32);
  Output weights = best->output(0);
  if (config.experts.normalized) {
    weights =
        make_node<op::Divide>(weights, make_node<op::ReduceSum>(weights, integers({-1}), true));
  }
  const Output shape =
      make_node<op::Concat>(ov::OutputVector{dimension(indices, 0), integers({count})}, 0);
  const Output zeros = make_node<op::Broadcast>(real({}, {0.0F}), shape);
  const Output all = make_node<op::ScatterElementsUpdate>(zeros, indices, weights, integer(1));
  const Output by_expert = make_node<op::Reshape>(make_node<op::Transpose>(all, integers({1, 0})),
                                                  integers({count, 0}), true);
  return make_node<op::Unsqueeze>(by_expert, integer(2));
}

}  // namespace

/// Every token goes through every expert, as far as the graph says; the plugin finds Tile ...
/// ReduceSum and keeps to the chosen ones. A Reshape that seems to do nothing is part of that
/// pattern.
Output mix_experts(const Output& x, const ExpertWeights& weights, const DecoderConfig& config) {
  const std::int64_t count = config.experts.count;
  const std::int64_t hidden = config.hidden_size;
  const Output tokens = make_node<op::Reshape>(x, integers({-1, hidden}), false);
  const Output copies = make_node<op::Reshape>(make_node<op::Tile>(tokens, integers({count, 1})),
                                               integers({count, -1, hidden}), false);
  const Output gate =
      activated(make_node<op::MatMul>(copies, weights.gate, false, true), config.activation);
  const Output up = make_node<op::MatMul>(copies, weights.up, false, true);
  const Output down =
      make_node<op::MatMul>(make_node<op::Multiply>(gate, up), weights.down, false, true);
  const Output all = make_node<op::Reshape>(down, integers({count, 0, hidden}), true);
  const Output weighted = make_node<op::Multiply>(all, route(tokens, weights.router, config));
  const Output sum = make_node<op::ReduceSum>(weighted, integers({0}), false);
  return make_node<op::Reshape>(sum, make_node<op::ShapeOf>(x, ov::element::i64), false);
}

}  // namespace paceline::compiler
