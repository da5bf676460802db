#include "engine/capped_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include <openvino/core/parallel.hpp>
#include <openvino/opsets/opset13.hpp>

#include "base/check.h"

namespace paceline::engine {
namespace {

namespace op = ov::opset13;
using Output = ov::Output<ov::Node>;

constexpr std::size_t kBlockTokens = 32;

/// Inputs of the operation, by place.
enum Input : std::size_t {
  kQueries,
  kKeys,
  kValues,
  kKeyCache,
  kValueCache,
  kPastLens,
  kSubsequenceBegins,
  kBlockIndices,
  kBlockIndicesBegins,
  kScale,
  kWindow,
  kInputs
};

/// One row of a step: a new token of a sequence.
struct Row {
  std::size_t index = 0;     ///< in the step
  std::size_t position = 0;  ///< in the sequence
  const std::int32_t* blocks = nullptr;
};

/// The new KV goes through a pointer to an input: caches are the caller's tensors, which the plugin
/// hands on as they are.
class Step {
 public:
  Step(const ov::TensorVector& inputs, float cap, float* result)
      : queries_(inputs[kQueries].data<const float>()),
        keys_(inputs[kKeys].data<const float>()),
        values_(inputs[kValues].data<const float>()),
        key_cache_(const_cast<float*>(inputs[kKeyCache].data<const float>())),
        value_cache_(const_cast<float*>(inputs[kValueCache].data<const float>())),
        scale_(*inputs[kScale].data<const float>()),
        cap_(cap),
        window_(static_cast<std::size_t>(*inputs[kWindow].data<const std::int32_t>())),
        result_(result) {
    const ov::Shape cache = inputs[kKeyCache].get_shape();
    kv_heads_ = cache[1];
    size_ = cache[3];
    heads_ = inputs[kQueries].get_shape()[1] / size_;
    find_rows(inputs);
  }

  void run() {
    for (const Row& row : rows_) store(row);
    ov::parallel_for2d(rows_.size(), heads_,
                       [this](std::size_t row, std::size_t head) { attend(rows_[row], head); });
  }

 private:
  void find_rows(const ov::TensorVector& inputs) {
    const auto* past = inputs[kPastLens].data<const std::int32_t>();
    const auto* begins = inputs[kSubsequenceBegins].data<const std::int32_t>();
    const auto* blocks = inputs[kBlockIndices].data<const std::int32_t>();
    const auto* block_begins = inputs[kBlockIndicesBegins].data<const std::int32_t>();
    for (std::size_t i = 0; i < inputs[kPastLens].get_size(); ++i) {
      for (std::int32_t row = begins[i]; row < begins[i + 1]; ++row) {
        rows_.push_back({static_cast<std::size_t>(row),
                         static_cast<std::size_t>(past[i] + row - begins[i]),
                         blocks + block_begins[i]});
      }
    }
  }

  std::size_t place(const Row& row, std::size_t position, std::size_t kv_head) const {
    const auto block = static_cast<std::size_t>(row.blocks[position / kBlockTokens]);
    return ((block * kv_heads_ + kv_head) * kBlockTokens + position % kBlockTokens) * size_;
  }

  void store(const Row& row) {
    for (std::size_t head = 0; head < kv_heads_; ++head) {
      const std::size_t to = place(row, row.position, head);
      const std::size_t from = (row.index * kv_heads_ + head) * size_;
      std::copy_n(keys_ + from, size_, key_cache_ + to);
      std::copy_n(values_ + from, size_, value_cache_ + to);
    }
  }

  void attend(const Row& row, std::size_t head) const {
    const std::size_t kv_head = head / (heads_ / kv_heads_);
    const std::size_t end = row.position + 1;
    const std::size_t begin = window_ == 0 || end <= window_ ? 0 : end - window_;
    const float* query = queries_ + (row.index * heads_ + head) * size_;
    std::vector<float> weights(end - begin);
    float largest = -INFINITY;
    for (std::size_t i = begin; i < end; ++i) {
      const float* key = key_cache_ + place(row, i, kv_head);
      float dot = 0.0F;
      for (std::size_t d = 0; d < size_; ++d) dot += query[d] * key[d];
      const float score = cap_ * std::tanh(dot * scale_ / cap_);
      weights[i - begin] = score;
      largest = std::max(largest, score);
    }
    float total = 0.0F;
    float* result = result_ + (row.index * heads_ + head) * size_;
    std::fill_n(result, size_, 0.0F);
    for (std::size_t i = begin; i < end; ++i) {
      const float weight = std::exp(weights[i - begin] - largest);
      const float* value = value_cache_ + place(row, i, kv_head);
      total += weight;
      for (std::size_t d = 0; d < size_; ++d) result[d] += weight * value[d];
    }
    for (std::size_t d = 0; d < size_; ++d) result[d] /= total;
  }

  const float* queries_;
  const float* keys_;
  const float* values_;
  float* key_cache_;
  float* value_cache_;
  float scale_;
  float cap_;
  std::size_t window_;
  float* result_;
  std::size_t kv_heads_ = 0;
  std::size_t heads_ = 0;
  std::size_t size_ = 0;
  std::vector<Row> rows_;
};

/// The node that gives input `index` of `node`, if it is a T.
template <typename T>
std::shared_ptr<T> parent(const std::shared_ptr<ov::Node>& node, std::size_t index = 0) {
  if (!node || index >= node->get_input_size()) return nullptr;
  return ov::as_type_ptr<T>(node->get_input_node_shared_ptr(index));
}

std::optional<float> scalar(const std::shared_ptr<ov::Node>& node, std::size_t index) {
  const auto constant = parent<op::Constant>(node, index);
  if (!constant || ov::shape_size(constant->get_shape()) != 1) return std::nullopt;
  return constant->cast_vector<float>()[0];
}

/// An attention that is spelled out.
struct SpelledOut {
  Output query;
  Output keys;
  Output values;
  Output mask;
  float scale = 1.0F;
  float cap = 0.0F;
  std::shared_ptr<ov::Node> last;
};

/// Reshape(MatMul(Reshape(Softmax(Add(Reshape(cap * Tanh(scale * MatMul(Reshape(query), keys) /
/// cap)), mask))), values))
std::optional<SpelledOut> match(const std::shared_ptr<ov::Node>& last) {
  SpelledOut found;
  found.last = last;
  const auto mixed = parent<op::MatMul>(ov::as_type_ptr<op::Reshape>(last));
  const auto softmax = parent<op::Softmax>(parent<op::Reshape>(mixed));
  const auto masked = parent<op::Add>(softmax);
  const auto capped = parent<op::Multiply>(parent<op::Reshape>(masked));
  const auto divided = parent<op::Divide>(parent<op::Tanh>(capped));
  const auto cap = scalar(divided, 1);
  if (!cap || scalar(capped, 1) != cap) return std::nullopt;
  found.cap = *cap;
  auto products = parent<op::MatMul>(divided);
  if (const auto scaled = parent<op::Multiply>(divided)) {
    const auto scale = scalar(scaled, 1);
    if (!scale) return std::nullopt;
    found.scale = *scale;
    products = parent<op::MatMul>(scaled);
  }
  const auto rows = parent<op::Reshape>(products);
  if (!rows) return std::nullopt;
  found.query = rows->input_value(0);
  found.keys = products->input_value(1);
  found.values = mixed->input_value(1);
  found.mask = masked->input_value(1);
  return found;
}

Output integers(const std::vector<std::int64_t>& values) {
  return op::Constant::create(ov::element::i64, {values.size()}, values);
}

/// Each of the states' heads as often as queries share it: the form that the transformation knows.
Output repeated(const Output& states, std::int64_t heads) {
  const ov::PartialShape& shape = states.get_partial_shape();
  const std::int64_t kv_heads = shape[1].get_length();
  if (kv_heads == heads) return states;
  const auto one = std::make_shared<op::Unsqueeze>(states, integers({2}));
  const auto all = std::make_shared<op::Broadcast>(one, integers({1, 1, heads / kv_heads, 1, 1}),
                                                   ov::op::BroadcastType::BIDIRECTIONAL);
  return std::make_shared<op::Reshape>(all, integers({0, heads, -1, shape[3].get_length()}), true);
}

}  // namespace

CappedPagedAttention::CappedPagedAttention(const ov::OutputVector& inputs, float cap)
    : Op(inputs), cap_(cap) {
  constructor_validate_and_infer_types();
}

void CappedPagedAttention::validate_and_infer_types() {
  OPENVINO_ASSERT(get_input_size() == kInputs, "CappedPagedAttention has ", get_input_size(),
                  " inputs");
  set_output_type(0, ov::element::f32, get_input_partial_shape(kQueries));
}

std::shared_ptr<ov::Node> CappedPagedAttention::clone_with_new_inputs(
    const ov::OutputVector& inputs) const {
  return std::make_shared<CappedPagedAttention>(inputs, cap_);
}

bool CappedPagedAttention::visit_attributes(ov::AttributeVisitor& visitor) {
  visitor.on_attribute("cap", cap_);
  return true;
}

bool CappedPagedAttention::evaluate(ov::TensorVector& outputs,
                                    const ov::TensorVector& inputs) const {
  outputs[0].set_shape(inputs[kQueries].get_shape());
  Step(inputs, cap_, outputs[0].data<float>()).run();
  return true;
}

CappedAttentions take_caps(const std::shared_ptr<ov::Model>& stage) {
  CappedAttentions caps;
  for (const auto& node : stage->get_ordered_ops()) {
    const auto found = match(node);
    if (!found) continue;
    const std::int64_t heads = found->query.get_partial_shape()[1].get_length();
    const auto attention = std::make_shared<op::ScaledDotProductAttention>(
        found->query, repeated(found->keys, heads), repeated(found->values, heads), found->mask,
        op::Constant::create(ov::element::f32, {}, {found->scale}), false);
    attention->set_friendly_name("capped attention " + std::to_string(caps.size()));
    caps[attention->get_friendly_name()] = found->cap;
    found->last->output(0).replace(attention->output(0));
  }
  return caps;
}

/// The transformation leaves PagedAttention -> Reshape -> Transpose, the last with the name that
/// the attention had.
void give_caps(const std::shared_ptr<ov::Model>& stage, const CappedAttentions& caps) {
  for (const auto& node : stage->get_ordered_ops()) {
    const auto cap = caps.find(node->get_friendly_name());
    if (cap == caps.end()) continue;
    const auto reshape = node->get_input_node_shared_ptr(0);
    const auto paged = reshape->get_input_node_shared_ptr(0);
    OPENVINO_ASSERT(paged->get_input_size() >= kInputs, "found no paged attention before ",
                    node->get_friendly_name());
    const auto& states = paged->get_rt_info();
    const ov::PartialShape cache = {-1, states.at("num_k_heads").as<std::int64_t>(),
                                    static_cast<std::int64_t>(kBlockTokens),
                                    states.at("k_head_size").as<std::int64_t>()};
    ov::OutputVector inputs = paged->input_values();
    inputs.resize(kInputs);
    for (const Input place : {kKeyCache, kValueCache}) {
      const auto parameter = ov::as_type_ptr<op::Parameter>(inputs[place].get_node_shared_ptr());
      OPENVINO_ASSERT(parameter, "the KV cache is no parameter");
      parameter->set_element_type(ov::element::f32);
      parameter->set_partial_shape(cache);
      parameter->validate_and_infer_types();
    }
    const auto capped = std::make_shared<CappedPagedAttention>(inputs, cap->second);
    capped->set_friendly_name(node->get_friendly_name() + "/paged");
    reshape->input(0).replace_source_output(capped->output(0));
  }
}

}  // namespace paceline::engine
