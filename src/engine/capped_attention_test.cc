// The operation against its definition: several sequences in a step, past tokens in blocks out of
// order, shared key heads, windows.
#include "engine/capped_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <openvino/opsets/opset13.hpp>

namespace paceline::engine {
namespace {

namespace op = ov::opset13;

constexpr std::size_t kHeads = 4;
constexpr std::size_t kKvHeads = 2;
constexpr std::size_t kSize = 8;
constexpr std::size_t kBlocks = 6;
constexpr float kScale = 0.4F;
constexpr float kCap = 1.5F;

using Rows = std::vector<std::vector<float>>;  ///< of one sequence, by position

Rows random_rows(std::size_t count, std::size_t width, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, 1.0F);
  Rows rows(count, std::vector<float>(width));
  for (auto& row : rows) {
    for (float& value : row) value = normal(random);
  }
  return rows;
}

struct Sequence {
  Rows queries;
  Rows keys;
  Rows values;
  std::vector<std::int32_t> blocks;
};

/// softmax(cap * tanh(scale * q * k / cap)) * v of one row, in double.
std::vector<double> expected_row(const Sequence& sequence, std::size_t position,
                                 std::size_t window) {
  std::vector<double> result;
  const std::size_t begin = window == 0 || position < window ? 0 : position + 1 - window;
  for (std::size_t head = 0; head < kHeads; ++head) {
    const std::size_t shared = head / (kHeads / kKvHeads) * kSize;
    std::vector<double> sum(kSize);
    double total = 0;
    for (std::size_t i = begin; i <= position; ++i) {
      double dot = 0;
      for (std::size_t d = 0; d < kSize; ++d) {
        dot += sequence.queries[position][head * kSize + d] * sequence.keys[i][shared + d];
      }
      const double weight = std::exp(kCap * std::tanh(dot * kScale / kCap));
      total += weight;
      for (std::size_t d = 0; d < kSize; ++d) sum[d] += weight * sequence.values[i][shared + d];
    }
    for (const double value : sum) result.push_back(value / total);
  }
  return result;
}

ov::Tensor integers(const std::vector<std::int32_t>& values) {
  ov::Tensor tensor(ov::element::i32, {values.size()});
  std::copy(values.begin(), values.end(), tensor.data<std::int32_t>());
  return tensor;
}

ov::Tensor scalar(float value) {
  ov::Tensor tensor(ov::element::f32, {});
  tensor.data<float>()[0] = value;
  return tensor;
}

class CappedAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(1);
    for (const auto& blocks : {std::vector<std::int32_t>{4, 1}, {3}, {0, 5}}) {
      sequences_.push_back({random_rows(40, kHeads * kSize, random),
                            random_rows(40, kKvHeads * kSize, random),
                            random_rows(40, kKvHeads * kSize, random), blocks});
    }
    for (ov::Tensor* cache : {&key_cache_, &value_cache_}) {
      *cache = ov::Tensor(ov::element::f32, {kBlocks, kKvHeads, 32, kSize});
      std::fill_n(cache->data<float>(), cache->get_size(), NAN);  // nothing unwritten is read
    }
  }

  struct Part {
    std::size_t sequence;
    std::size_t past;
    std::size_t count;
  };

  /// Runs a step and compares its rows.
  void step(const std::vector<Part>& parts, std::int32_t window) {
    std::vector<std::int32_t> past;
    std::vector<std::int32_t> begins = {0};
    std::vector<std::int32_t> blocks;
    std::vector<std::int32_t> block_begins = {0};
    Rows queries;
    Rows keys;
    Rows values;
    for (const Part& part : parts) {
      const Sequence& sequence = sequences_[part.sequence];
      for (std::size_t i = part.past; i < part.past + part.count; ++i) {
        queries.push_back(sequence.queries[i]);
        keys.push_back(sequence.keys[i]);
        values.push_back(sequence.values[i]);
      }
      past.push_back(static_cast<std::int32_t>(part.past));
      begins.push_back(static_cast<std::int32_t>(queries.size()));
      blocks.insert(blocks.end(), sequence.blocks.begin(), sequence.blocks.end());
      block_begins.push_back(static_cast<std::int32_t>(blocks.size()));
    }
    ov::Tensor window_tensor(ov::element::i32, {});
    window_tensor.data<std::int32_t>()[0] = window;
    ov::TensorVector outputs = {ov::Tensor(ov::element::f32, {0, kHeads * kSize})};
    const ov::TensorVector inputs = {matrix(queries),  matrix(keys),     matrix(values),
                                     key_cache_,       value_cache_,     integers(past),
                                     integers(begins), integers(blocks), integers(block_begins),
                                     scalar(kScale),   window_tensor};
    ASSERT_TRUE(operation().evaluate(outputs, inputs));
    ASSERT_EQ(outputs[0].get_shape(), (ov::Shape{queries.size(), kHeads * kSize}));
    const float* found = outputs[0].data<float>();
    for (const Part& part : parts) {
      for (std::size_t i = part.past; i < part.past + part.count; ++i) {
        for (const double value :
             expected_row(sequences_[part.sequence], i, static_cast<std::size_t>(window))) {
          ASSERT_NEAR(*found++, value, 1e-5) << part.sequence << " " << i;
        }
      }
    }
  }

  static ov::Tensor matrix(const Rows& rows) {
    ov::Tensor tensor(ov::element::f32, {rows.size(), rows[0].size()});
    float* to = tensor.data<float>();
    for (const auto& row : rows) to = std::copy(row.begin(), row.end(), to);
    return tensor;
  }

  static CappedPagedAttention operation() {
    ov::OutputVector inputs;
    for (int i = 0; i < 11; ++i) {
      inputs.push_back(std::make_shared<op::Parameter>(ov::element::f32, ov::PartialShape{-1, -1}));
    }
    return {inputs, kCap};
  }

  std::vector<Sequence> sequences_;
  ov::Tensor key_cache_;
  ov::Tensor value_cache_;
};

TEST_F(CappedAttentionTest, EachRowSeesItsOwnSequenceUpToItself) {
  step({{0, 0, 20}}, 0);
  step({{1, 0, 7}, {0, 20, 15}}, 0);  // into the second block
  step({{2, 0, 40}, {1, 7, 1}, {0, 35, 1}}, 0);
  step({{0, 30, 3}}, 0);  // rewound: what lies behind is not seen
}

TEST_F(CappedAttentionTest, AWindowHidesWhatIsBeforeIt) {
  step({{0, 0, 40}, {1, 0, 3}}, 5);
  step({{1, 3, 20}}, 5);
  step({{1, 23, 1}}, 1);
}

/// The graph's parts in the form in which packages spell a capped attention out.
struct Spelled {
  std::shared_ptr<ov::Model> model;
  std::shared_ptr<ov::Node> tanh;
};

Spelled spelled_out(float second_cap) {
  const auto parameter = [](ov::PartialShape shape) {
    return std::make_shared<op::Parameter>(ov::element::f32, shape);
  };
  const auto constant = [](float value) {
    return op::Constant::create(ov::element::f32, {}, {value});
  };
  const auto shape = [](std::vector<std::int64_t> values) {
    return op::Constant::create(ov::element::i64, {values.size()}, values);
  };
  const auto query = parameter({-1, 4, -1, 8});
  const auto keys = parameter({-1, 2, -1, 8});
  const auto values = parameter({-1, 2, -1, 8});
  const auto mask = parameter({-1, 1, -1, -1});
  const auto rows = std::make_shared<op::Reshape>(query, shape({0, 2, -1, 8}), true);
  const auto products = std::make_shared<op::MatMul>(rows, keys, false, true);
  const auto scaled = std::make_shared<op::Multiply>(products, constant(kScale));
  const auto divided = std::make_shared<op::Divide>(scaled, constant(kCap));
  const auto tanh = std::make_shared<op::Tanh>(divided);
  const auto capped = std::make_shared<op::Multiply>(tanh, constant(second_cap));
  const auto scores = std::make_shared<op::Reshape>(capped, shape({0, 4, 3, -1}), true);
  const auto masked = std::make_shared<op::Add>(scores, mask);
  const auto weights = std::make_shared<op::Softmax>(masked, -1);
  const auto shared = std::make_shared<op::Reshape>(weights, shape({0, 2, -1, 5}), true);
  const auto mixed = std::make_shared<op::MatMul>(shared, values, false, false);
  const auto last = std::make_shared<op::Reshape>(mixed, shape({0, 4, -1, 8}), true);
  return {std::make_shared<ov::Model>(ov::OutputVector{last},
                                      ov::ParameterVector{query, keys, values, mask}),
          tanh};
}

TEST_F(CappedAttentionTest, ASpelledOutAttentionIsFoundWithItsCap) {
  const auto model = spelled_out(kCap).model;
  const CappedAttentions caps = take_caps(model);
  ASSERT_EQ(caps.size(), 1U);
  EXPECT_EQ(caps.begin()->second, kCap);
  std::size_t attentions = 0;
  for (const auto& node : model->get_ordered_ops()) {
    EXPECT_FALSE(ov::is_type<op::Tanh>(node));
    const auto attention = ov::as_type_ptr<op::ScaledDotProductAttention>(node);
    if (!attention) continue;
    ++attentions;
    EXPECT_EQ(attention->get_friendly_name(), caps.begin()->first);
    const auto scale = ov::as_type_ptr<op::Constant>(attention->get_input_node_shared_ptr(4))
                           ->cast_vector<float>();
    EXPECT_EQ(scale, std::vector<float>{kScale});
    EXPECT_EQ(attention->get_output_partial_shape(0)[1], 4);
  }
  EXPECT_EQ(attentions, 1U);
}

TEST_F(CappedAttentionTest, WhatIsNoCapIsLeftAsItIs) {
  const Spelled spelled = spelled_out(kCap + 1);
  EXPECT_TRUE(take_caps(spelled.model).empty());
  EXPECT_EQ(spelled.tanh->output(0).get_target_inputs().size(), 1U);
}

}  // namespace
}  // namespace paceline::engine
