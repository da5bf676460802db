#include "compiler/builder.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openvino/opsets/opset13.hpp>

#include "compiler/attention_nodes.h"
#include "compiler/decoder_nodes.h"
#include "compiler/expert_nodes.h"
#include "compiler/rope_nodes.h"
#include "cut/openvino_error.h"

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;
using model::DecoderConfig;
using model::NormPlacement;

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
  DecoderGraph(const DecoderConfig& config, WeightBinder& weights)
      : config_(config),
        weights_(weights),
        input_ids_(parameter("input_ids", ov::element::i64, 2)),
        attention_mask_(parameter("attention_mask", ov::element::i64, 2)),
        position_ids_(parameter("position_ids", ov::element::i64, 2)),
        beam_idx_(parameter("beam_idx", ov::element::i32, 1)),
        states_(position_ids_, beam_idx_, config),
        masks_(attention_mask_, position_ids_) {
    for (const model::RopeConfig& rope : config.ropes) {
      tables_.push_back(rope_tables(position_ids_, rope, config.rope_dimensions));
    }
  }

  std::shared_ptr<ov::Model> build() {
    Output hidden = embed();
    for (std::uint32_t i = 0; i < config_.layers.size(); ++i) hidden = layer(hidden, i);
    const Output normed = norm(hidden, "model.norm");
    const Output head =
        weights_.matrix(config_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
    const Output products = make_node<op::MatMul>(normed, head, false, true);
    products.get_node()->set_friendly_name("__module.lm_head/aten::linear/MatMul");
    const Output logits =
        softcapped(multiplied(products, config_.logit_multiplier), config_.logit_softcap);
    const auto result = std::make_shared<op::Result>(logits);
    result->output(0).set_names({"logits"});
    result->set_friendly_name("logits");
    return std::make_shared<ov::Model>(
        ov::ResultVector{result}, states_.sinks(),
        ov::ParameterVector{input_ids_, attention_mask_, position_ids_, beam_idx_}, "decoder");
  }

 private:
  Output embed() {
    const Output ids = make_node<op::Convert>(input_ids_, ov::element::i32);
    const Output rows =
        make_node<op::Gather>(weights_.matrix("model.embed_tokens.weight"), ids, integer(0));
    return multiplied(rows, config_.embedding_multiplier);
  }

  Output norm(const Output& x, const std::string& module) {
    Output weight = weights_.vector(module + ".weight");
    if (config_.norm_weight_offset != 0.0F) {
      weight = make_node<op::Add>(weight, real({}, {config_.norm_weight_offset}));
    }
    return rms_norm(x, weight, config_.rms_norm_epsilon);
  }

  Output linear(const Output& x, const std::string& module, bool has_bias) {
    const Output result =
        make_node<op::MatMul>(x, weights_.matrix(module + ".weight"), false, true);
    result.get_node()->set_friendly_name("__module." + module + "/aten::linear/MatMul");
    if (!has_bias) return result;
    return make_node<op::Add>(result, weights_.vector(module + ".bias"));
  }

  /// Queries, keys or values [B, N, T, D].
  Output heads(const Output& x, const std::string& module, const char* name, std::uint32_t count) {
    const std::string projection = module + name + "_proj";
    const Output all = linear(x, projection, config_.query_key_value_bias);
    const bool is_normed = std::string_view(name) != "v";
    const std::string norm_module = module + name + "_norm";
    if (is_normed && config_.query_key_norm == model::QueryKeyNorm::kWhole) {
      return heads_first(split_heads(norm(all, norm_module), count, config_.head_size));
    }
    const Output split = split_heads(all, count, config_.head_size);
    if (is_normed && config_.query_key_norm == model::QueryKeyNorm::kPerHead) {
      return heads_first(norm(split, norm_module));
    }
    return heads_first(split);
  }

  Output turned(const Output& x, const model::LayerConfig& layer) {
    if (layer.rope == model::LayerConfig::kNoRope) return x;
    return apply_rope(x, tables_.at(static_cast<std::size_t>(layer.rope)), config_.rope_dimensions);
  }

  Output attention(const Output& x, std::uint32_t number, const std::string& module) {
    const model::LayerConfig& layer = config_.layers[number];
    const std::string past = fmt::format("past_key_values.{}", number);
    const std::string present = fmt::format("present.{}", number);
    const Output query = heads(x, module, "q", config_.attention_heads);
    const Output key = heads(x, module, "k", config_.key_value_heads);
    const Output value = heads(x, module, "v", config_.key_value_heads);
    const Output keys = states_.append(turned(key, layer), past + ".key" + present + ".key");
    const Output values = states_.append(value, past + ".value" + present + ".value");
    const Output attended =
        attend(turned(query, layer), keys, values, masks_.get(layer.window_tokens), config_);
    const std::int64_t width = std::int64_t{config_.attention_heads} * config_.head_size;
    return linear(merge_heads(attended, width), module + "o_proj", config_.attention_output_bias);
  }

  Output feed_forward(const Output& x, const std::string& module) {
    const bool has_bias = config_.feed_forward_bias;
    const Output gate = activated(linear(x, module + "gate_proj", has_bias), config_.activation);
    const Output inner = make_node<op::Multiply>(gate, linear(x, module + "up_proj", has_bias));
    return linear(inner, module + "down_proj", has_bias);
  }

  Output experts(const Output& x, const std::string& module) {
    const std::string stack = module + "experts.";
    return mix_experts(
        x,
        {weights_.matrix(module + "gate.weight"), weights_.matrix(stack + "gate_proj.weight"),
         weights_.matrix(stack + "up_proj.weight"), weights_.matrix(stack + "down_proj.weight")},
        config_);
  }

  /// x + f(x), with the norms that stand around f; `before` and `after` name them.
  template <typename Function>
  Output block(const Output& x, const std::string& before, const std::string& after,
               const Function& f) {
    const NormPlacement placement = config_.norms;
    Output result = f(placement == NormPlacement::kAfter ? x : norm(x, before));
    if (placement != NormPlacement::kBefore) result = norm(result, after);
    return make_node<op::Add>(x, multiplied(result, config_.residual_multiplier));
  }

  /// The norms have Hugging Face's names, in which "post_attention" is the feed-forward's own norm
  /// unless there is one after attention.
  Output layer(const Output& x, std::uint32_t number) {
    const std::string module = fmt::format("model.layers.{}.", number);
    const bool is_before = config_.norms == NormPlacement::kBefore;
    const Output middle =
        block(x, module + "input_layernorm", module + "post_attention_layernorm",
              [&](const Output& y) { return attention(y, number, module + "self_attn."); });
    return block(middle,
                 module + (is_before ? "post_attention_layernorm" : "pre_feedforward_layernorm"),
                 module + "post_feedforward_layernorm", [&](const Output& y) {
                   return config_.layers[number].has_experts ? experts(y, module + "mlp.")
                                                             : feed_forward(y, module + "mlp.");
                 });
  }

  const DecoderConfig& config_;
  WeightBinder& weights_;
  std::shared_ptr<op::Parameter> input_ids_;
  std::shared_ptr<op::Parameter> attention_mask_;
  std::shared_ptr<op::Parameter> position_ids_;
  std::shared_ptr<op::Parameter> beam_idx_;
  KvStates states_;
  AttentionMasks masks_;
  std::vector<RopeTables> tables_;
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
                                                 WeightBinder& weights) {
  return cut::catch_openvino("cannot build the graph", [&] {
    auto model = DecoderGraph(config, weights).build();
    name_nodes(*model);
    set_runtime_options(*model);
    return model;
  });
}

}  // namespace paceline::compiler
