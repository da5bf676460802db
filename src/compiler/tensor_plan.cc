#include "compiler/tensor_plan.h"

#include <cmath>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "model/dequantize.h"
#include "model/foreign_text.h"

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using model::in_quotes;
using model::TensorInfo;
using model::TensorSource;
using Shape = std::vector<std::uint64_t>;

constexpr const char* kRopeDivisors = "rope_freqs.weight";

/// Collects tensors and remembers which of the source were taken.
class Planner {
 public:
  explicit Planner(const TensorSource& source) : source_(source) {}

  Result<const TensorInfo*> find(const std::string& name, const Shape& shape) {
    PACELINE_ASSIGN_OR_RETURN(const TensorInfo* tensor, source_.find(name));
    taken_.insert(tensor);
    if (tensor->shape == shape) return tensor;
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: has the shape {}, expected {}",
                source_.name(), in_quotes(name), fmt::join(tensor->shape, " x "),
                fmt::join(shape, " x "));
  }

  Status add(const std::string& name, std::string graph_name, const Shape& shape,
             RowOrder order = {}) {
    PACELINE_ASSIGN_OR_RETURN(const TensorInfo* tensor, find(name, shape));
    plan_.tensors.push_back(
        {std::move(graph_name), shape, {{tensor, 0, tensor->shape[0]}}, order});
    return {};
  }

  Status add_rope_divisors(std::uint64_t count) {
    if (!source_.find(kRopeDivisors)) return {};
    PACELINE_ASSIGN_OR_RETURN(const TensorInfo* tensor, find(kRopeDivisors, {count}));
    plan_.rope_divisors.resize(count);
    model::dequantize(tensor->type, source_.bytes(*tensor), plan_.rope_divisors);
    for (const float divisor : plan_.rope_divisors) {
      if (std::isfinite(divisor) && divisor > 0.0F) continue;
      return fail(ErrorCode::kDataLoss, "{}: tensor {}: has a value of {}, expected more than 0",
                  source_.name(), in_quotes(kRopeDivisors), divisor);
    }
    return {};
  }

  Result<TensorPlan> finish() {
    for (const TensorInfo& tensor : source_.tensors()) {
      if (taken_.contains(&tensor)) continue;
      return fail(ErrorCode::kUnimplemented,
                  "{}: tensor {}: has no place in the graph, expected only those of plain llama",
                  source_.name(), in_quotes(tensor.name));
    }
    return std::move(plan_);
  }

 private:
  const TensorSource& source_;
  std::unordered_set<const TensorInfo*> taken_;
  TensorPlan plan_;
};

struct LayerTensor {
  std::string_view stored;
  std::string_view name;
  Shape shape;
  RowOrder order = {};
};

std::vector<LayerTensor> layer_tensors(const DecoderConfig& config) {
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t inner = config.intermediate_size;
  const std::uint64_t queries = std::uint64_t{config.attention_heads} * config.head_size;
  const std::uint64_t keys = std::uint64_t{config.key_value_heads} * config.head_size;
  const RowOrder heads = {config.head_size, config.rope_dimensions};
  return {{"attn_norm", "input_layernorm", {hidden}},
          {"attn_q", "self_attn.q_proj", {queries, hidden}, heads},
          {"attn_k", "self_attn.k_proj", {keys, hidden}, heads},
          {"attn_v", "self_attn.v_proj", {keys, hidden}},
          {"attn_output", "self_attn.o_proj", {hidden, queries}},
          {"ffn_norm", "post_attention_layernorm", {hidden}},
          {"ffn_gate", "mlp.gate_proj", {inner, hidden}},
          {"ffn_up", "mlp.up_proj", {inner, hidden}},
          {"ffn_down", "mlp.down_proj", {hidden, inner}}};
}

}  // namespace

std::uint64_t RowOrder::source_row(std::uint64_t row) const {
  if (head_size == 0) return row;
  const std::uint64_t inner = row % head_size;
  if (inner >= rotary) return row;
  const std::uint64_t half = rotary / 2;
  return row - inner + (inner < half ? 2 * inner : 2 * (inner - half) + 1);
}

Result<TensorPlan> plan_llama_tensors(const TensorSource& source, const DecoderConfig& config) {
  const Shape table = {config.vocabulary_size, config.hidden_size};
  Planner planner(source);
  PACELINE_RETURN_IF_ERROR(planner.add("token_embd.weight", "model.embed_tokens.weight", table));
  const std::vector<LayerTensor> layer = layer_tensors(config);
  for (std::uint32_t i = 0; i < config.layers.size(); ++i) {
    for (const LayerTensor& tensor : layer) {
      PACELINE_RETURN_IF_ERROR(planner.add(fmt::format("blk.{}.{}.weight", i, tensor.stored),
                                           fmt::format("model.layers.{}.{}.weight", i, tensor.name),
                                           tensor.shape, tensor.order));
    }
  }
  PACELINE_RETURN_IF_ERROR(
      planner.add("output_norm.weight", "model.norm.weight", {config.hidden_size}));
  if (!config.tied_head) {
    PACELINE_RETURN_IF_ERROR(planner.add("output.weight", "lm_head.weight", table));
  }
  PACELINE_RETURN_IF_ERROR(planner.add_rope_divisors(config.rope_dimensions / 2));
  return planner.finish();
}

}  // namespace paceline::compiler
