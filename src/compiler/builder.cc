#include "compiler/builder.h"

#include <string>
#include <utility>

#include <openvino/opsets/opset13.hpp>

#include "compiler/decoder_nodes.h"
#include "cut/openvino_error.h"

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;
using model::DecoderConfig;

std::shared_ptr<op::Parameter> parameter(const char* name, ov::element::Type type, int rank) {
  const auto node = std::make_shared<op::Parameter>(
      type, ov::PartialShape(std::vector<ov::Dimension>(static_cast<std::size_t>(rank), -1)));
  node->set_friendly_name(name);
  node->output(0).set_names({name});
  return node;
}

/// The graph under construction; its parts are made in the order of the decoder.
class DecoderGraph {
 public:
  DecoderGraph(const DecoderConfig& config, const std::vector<float>& rope_divisors,
               WeightBinder& weights)
      : config_(config),
        weights_(weights),
        input_ids_(parameter("input_ids", ov::element::i64, 2)),
        attention_mask_(parameter("attention_mask", ov::element::i64, 2)),
        position_ids_(parameter("position_ids", ov::element::i64, 2)),
        beam_idx_(parameter("beam_idx", ov::element::i32, 1)),
        states_(position_ids_, beam_idx_, config),
        tables_(rope_tables(position_ids_, config, rope_divisors)),
        mask_(compiler::attention_mask(attention_mask_, position_ids_)) {}

  std::shared_ptr<ov::Model> build() {
    Output hidden = embed();
    for (std::uint32_t i = 0; i < config_.layers.size(); ++i) hidden = layer(hidden, i);
    const Output normed = norm(hidden, "model.norm");
    const Output head =
        weights_.matrix(config_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
    const Output logits = std::make_shared<op::MatMul>(normed, head, false, true);
    logits.get_node()->set_friendly_name("__module.lm_head/aten::linear/MatMul");
    const auto result = std::make_shared<op::Result>(logits);
    result->output(0).set_names({"logits"});
    result->set_friendly_name("logits");
    return std::make_shared<ov::Model>(
        ov::ResultVector{result}, states_.sinks(),
        ov::ParameterVector{input_ids_, attention_mask_, position_ids_, beam_idx_}, "decoder");
  }

 private:
  Output embed() {
    const Output ids = std::make_shared<op::Convert>(input_ids_, ov::element::i32);
    return std::make_shared<op::Gather>(weights_.matrix("model.embed_tokens.weight"), ids,
                                        integer(0));
  }

  Output norm(const Output& x, const std::string& module) {
    return rms_norm(x, weights_.vector(module + ".weight"), config_.rms_norm_epsilon);
  }

  Output linear(const Output& x, const std::string& module) {
    const Output result =
        std::make_shared<op::MatMul>(x, weights_.matrix(module + ".weight"), false, true);
    result.get_node()->set_friendly_name("__module." + module + "/aten::linear/MatMul");
    return result;
  }

  Output attention(const Output& x, const std::string& module, const std::string& index) {
    const std::int64_t heads = config_.attention_heads;
    const std::int64_t kv_heads = config_.key_value_heads;
    const std::int64_t head_size = config_.head_size;
    const Output query = split_heads(linear(x, module + "q_proj"), heads, head_size);
    const Output key = split_heads(linear(x, module + "k_proj"), kv_heads, head_size);
    const Output value = split_heads(linear(x, module + "v_proj"), kv_heads, head_size);
    const std::string past = "past_key_values." + index;
    const std::string present = "present." + index;
    const Output keys =
        states_.append(apply_rope(key, tables_, config_), past + ".key" + present + ".key");
    const Output values = states_.append(value, past + ".value" + present + ".value");
    const Output attended = std::make_shared<op::ScaledDotProductAttention>(
        apply_rope(query, tables_, config_), repeat_heads(keys, kv_heads, heads / kv_heads),
        repeat_heads(values, kv_heads, heads / kv_heads), mask_, false);
    return linear(merge_heads(attended, heads * head_size), module + "o_proj");
  }

  Output feed_forward(const Output& x, const std::string& module) {
    const Output gate = std::make_shared<op::Swish>(linear(x, module + "gate_proj"));
    const Output inner = std::make_shared<op::Multiply>(gate, linear(x, module + "up_proj"));
    return linear(inner, module + "down_proj");
  }

  Output layer(const Output& x, std::uint32_t number) {
    const std::string index = std::to_string(number);
    const std::string module = "model.layers." + index + ".";
    const Output attended =
        attention(norm(x, module + "input_layernorm"), module + "self_attn.", index);
    const Output middle = std::make_shared<op::Add>(x, attended);
    const Output fed =
        feed_forward(norm(middle, module + "post_attention_layernorm"), module + "mlp.");
    return std::make_shared<op::Add>(middle, fed);
  }

  const DecoderConfig& config_;
  WeightBinder& weights_;
  std::shared_ptr<op::Parameter> input_ids_;
  std::shared_ptr<op::Parameter> attention_mask_;
  std::shared_ptr<op::Parameter> position_ids_;
  std::shared_ptr<op::Parameter> beam_idx_;
  KvStates states_;
  RopeTables tables_;
  Output mask_;
};

/// Nodes without a name of ours have one from a counter of the whole process: number them by their
/// place instead.
void name_nodes(const ov::Model& model) {
  std::size_t index = 0;
  for (const auto& node : model.get_ordered_ops()) {
    if (node->get_friendly_name() == node->get_name()) {
      node->set_friendly_name(std::string(node->get_type_name()) + "_" + std::to_string(index));
    }
    ++index;
  }
}

/// What optimum-intel notes for the plugins: activations of GPUs are scaled so that f16 holds them,
/// and the cache is f16 unless the user says otherwise.
void set_runtime_options(ov::Model& model) {
  model.set_rt_info("8.0", {"runtime_options", "ACTIVATIONS_SCALE_FACTOR"});
  model.set_rt_info("f16", {"runtime_options", "KV_CACHE_PRECISION"});
}

}  // namespace

Result<std::shared_ptr<ov::Model>> build_decoder(const DecoderConfig& config,
                                                 const std::vector<float>& rope_divisors,
                                                 WeightBinder& weights) {
  return cut::catch_openvino("cannot build the graph", [&] {
    auto model = DecoderGraph(config, rope_divisors, weights).build();
    name_nodes(*model);
    set_runtime_options(*model);
    return model;
  });
}

}  // namespace paceline::compiler
