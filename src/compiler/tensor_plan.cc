#include "compiler/tensor_plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "compiler/tensor_names.h"
#include "model/foreign_text.h"
#include "model/quantized_block.h"

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using model::in_quotes;
using model::NormPlacement;
using model::QueryKeyNorm;
using model::TensorInfo;
using model::TensorSource;
using Shape = std::vector<std::uint64_t>;

std::uint64_t query_rows(const DecoderConfig& config) {
  return std::uint64_t{config.attention_heads} * config.head_size;
}
std::uint64_t key_rows(const DecoderConfig& config) {
  return std::uint64_t{config.key_value_heads} * config.head_size;
}

/// A tensor of the graph.
struct Wanted {
  std::string name;
  Shape shape;
  RowOrder order = {};

  std::uint64_t rows() const {
    std::uint64_t rows = 1;
    const std::size_t counted = shape.size() == 1 ? 1 : shape.size() - 1;
    for (std::size_t i = 0; i < counted; ++i) rows *= shape[i];
    return rows;
  }
};

/// Where a wanted tensor lies in a stored one.
struct Place {
  Shape stored_shape;
  std::uint64_t first_row = 0;
  std::uint64_t stride = 0;  ///< rows from one expert of a stack to the next
};

Place place_of(const Wanted& wanted, Holding holding, const DecoderConfig& config) {
  Place place{wanted.shape};
  const std::uint64_t queries = query_rows(config);
  const std::uint64_t keys = key_rows(config);
  switch (holding) {
    case Holding::kWhole:
    case Holding::kStack:
      break;
    case Holding::kQueries:
    case Holding::kKeys:
    case Holding::kValues:
      place.stored_shape[0] = queries + 2 * keys;
      if (holding == Holding::kKeys) place.first_row = queries;
      if (holding == Holding::kValues) place.first_row = queries + keys;
      break;
    case Holding::kGate:
    case Holding::kUp:
      place.stored_shape[0] = 2 * wanted.shape[0];
      if (holding == Holding::kUp) place.first_row = wanted.shape[0];
      break;
    case Holding::kEach:
      place.stored_shape.erase(place.stored_shape.begin());
      break;
    case Holding::kGateStack:
    case Holding::kUpStack:
      place.stride = 2 * wanted.shape[1];
      place.stored_shape[1] = place.stride;
      if (holding == Holding::kUpStack) place.first_row = wanted.shape[1];
      break;
  }
  return place;
}

std::string with_number(std::string_view name, std::uint64_t number) {
  const std::size_t at = name.find("{}");
  return fmt::format("{}{}{}", name.substr(0, at), number, name.substr(at + 2));
}

/// Collects tensors and remembers which of the source were taken.
class Planner {
 public:
  Planner(const TensorSource& source, const DecoderConfig& config)
      : source_(source), config_(config), names_(TensorNames::of(source)) {}

  Status add(Wanted wanted) {
    const auto candidates = names_.stored(wanted.name, config_.norms);
    const StoredName* chosen = &candidates.front();
    bool is_found = false;
    for (const StoredName& candidate : candidates) {
      const auto tensor = source_.find(first_name(candidate));
      if (!tensor) continue;
      const Place place = place_of(wanted, candidate.holding, config_);
      const bool fits = (*tensor)->shape == place.stored_shape;
      if (fits || !is_found) chosen = &candidate;
      is_found = true;
      if (fits) break;
    }
    PACELINE_ASSIGN_OR_RETURN(auto pieces, pieces_of(wanted, *chosen));
    plan_.tensors.push_back(
        {std::move(wanted.name), wanted.shape, std::move(pieces), wanted.order});
    return {};
  }

  Result<TensorPlan> finish() {
    for (const TensorInfo& tensor : source_.tensors()) {
      if (taken_.contains(&tensor) || names_.is_needless(tensor.name, config_)) continue;
      return fail(ErrorCode::kUnimplemented,
                  "{}: tensor {}: has no place in the graph, expected only what the configuration "
                  "of a {} asks for",
                  source_.name(), in_quotes(tensor.name), config_.architecture);
    }
    return std::move(plan_);
  }

 private:
  static std::string first_name(const StoredName& stored) {
    return stored.holding == Holding::kEach ? with_number(stored.name, 0) : stored.name;
  }

  Result<const TensorInfo*> take(const std::string& name, const Shape& shape) {
    PACELINE_ASSIGN_OR_RETURN(const TensorInfo* tensor, source_.find(name));
    taken_.insert(tensor);
    if (tensor->shape == shape) return tensor;
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: has the shape {}, expected {}",
                source_.name(), in_quotes(name), fmt::join(tensor->shape, " x "),
                fmt::join(shape, " x "));
  }

  Result<std::vector<TensorPiece>> pieces_of(const Wanted& wanted, const StoredName& stored) {
    const Place place = place_of(wanted, stored.holding, config_);
    const bool is_each = stored.holding == Holding::kEach;
    const std::uint64_t count = is_each || place.stride != 0 ? wanted.shape[0] : 1;
    std::vector<TensorPiece> pieces;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string name = is_each ? with_number(stored.name, i) : stored.name;
      PACELINE_ASSIGN_OR_RETURN(const TensorInfo* tensor, take(name, place.stored_shape));
      PACELINE_ASSIGN_OR_RETURN(const TensorInfo* scale, scale_of(*tensor));
      pieces.push_back({tensor, place.first_row + i * place.stride, wanted.rows() / count, scale});
    }
    return pieces;
  }

  /// The scale of an FP8 matrix; none where there is none.
  Result<const TensorInfo*> scale_of(const TensorInfo& tensor) {
    const TensorInfo* none = nullptr;
    if (tensor.type != model::TensorType::kF8_E4M3) return none;
    if (tensor.shape.size() == 3 && config_.fp8_scales) {
      return fail(ErrorCode::kUnimplemented,
                  "{}: tensor {}: is a stack of experts in F8_E4M3, expected a tensor for each",
                  source_.name(), in_quotes(tensor.name));
    }
    if (tensor.shape.size() != 2) return none;
    const auto names = TensorNames::scales(tensor.name);
    for (const std::string& name : names) {
      const auto found = source_.find(name);
      if (!found) continue;
      taken_.insert(*found);
      PACELINE_RETURN_IF_ERROR(check_scale(tensor, **found));
      return *found;
    }
    if (!config_.fp8_scales) return none;
    return fail(ErrorCode::kNotFound, "{}: tensor {}: is missing, the scale of a matrix in F8_E4M3",
                source_.name(), in_quotes(names.front()));
  }

  Status check_scale(const TensorInfo& tensor, const TensorInfo& scale) const {
    const auto divided = [](std::uint64_t size, std::uint64_t by) { return (size + by - 1) / by; };
    const std::uint64_t rows = tensor.shape[0];
    std::vector<Shape> known = {{}, {1}, {rows}, {rows, 1}};
    if (config_.fp8_block_rows != 0) {
      known = {{divided(rows, config_.fp8_block_rows),
                divided(tensor.shape[1], config_.fp8_block_columns)}};
    }
    const bool is_known = std::find(known.begin(), known.end(), scale.shape) != known.end();
    if (is_known && !model::is_quantized(scale.type)) return {};
    return fail(ErrorCode::kDataLoss,
                "{}: tensor {}: has the shape {}, expected {} of real numbers", source_.name(),
                in_quotes(scale.name), fmt::join(scale.shape, " x "),
                fmt::join(known.back(), " x "));
  }

  const TensorSource& source_;
  const DecoderConfig& config_;
  TensorNames names_;
  std::unordered_set<const TensorInfo*> taken_;
  TensorPlan plan_;
};

using Layer = std::vector<Wanted>;

void add_projection(Layer& layer, const char* module, Shape shape, bool has_bias,
                    RowOrder order = {}) {
  const Shape bias = {shape[0]};
  layer.push_back({fmt::format("{}.weight", module), std::move(shape), order});
  if (has_bias) layer.push_back({fmt::format("{}.bias", module), bias, order});
}

void add_attention(Layer& layer, const DecoderConfig& config) {
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t queries = query_rows(config);
  const std::uint64_t keys = key_rows(config);
  const bool has_bias = config.query_key_value_bias;
  RowOrder order;
  if (config.interleaved_rope_rows) order = {config.head_size, config.rope_dimensions};
  add_projection(layer, "self_attn.q_proj", {queries, hidden}, has_bias, order);
  add_projection(layer, "self_attn.k_proj", {keys, hidden}, has_bias, order);
  add_projection(layer, "self_attn.v_proj", {keys, hidden}, has_bias);
  if (config.query_key_norm != QueryKeyNorm::kNone) {
    const bool is_whole = config.query_key_norm == QueryKeyNorm::kWhole;
    const std::uint64_t head = config.head_size;
    layer.push_back({"self_attn.q_norm.weight", {is_whole ? queries : head}});
    layer.push_back({"self_attn.k_norm.weight", {is_whole ? keys : head}});
  }
  add_projection(layer, "self_attn.o_proj", {hidden, queries}, config.attention_output_bias);
}

void add_feed_forward(Layer& layer, const DecoderConfig& config, bool has_experts) {
  const std::uint64_t hidden = config.hidden_size;
  if (!has_experts) {
    const std::uint64_t inner = config.intermediate_size;
    add_projection(layer, "mlp.gate_proj", {inner, hidden}, config.feed_forward_bias);
    add_projection(layer, "mlp.up_proj", {inner, hidden}, config.feed_forward_bias);
    add_projection(layer, "mlp.down_proj", {hidden, inner}, config.feed_forward_bias);
    return;
  }
  const std::uint64_t count = config.experts.count;
  const std::uint64_t inner = config.experts.intermediate_size;
  layer.push_back({"mlp.gate.weight", {count, hidden}});
  layer.push_back({"mlp.experts.gate_proj.weight", {count, inner, hidden}});
  layer.push_back({"mlp.experts.up_proj.weight", {count, inner, hidden}});
  layer.push_back({"mlp.experts.down_proj.weight", {count, hidden, inner}});
}

/// What a layer is made of, in the order of its work.
Layer layer_tensors(const DecoderConfig& config, const model::LayerConfig& kind) {
  const Shape hidden = {config.hidden_size};
  Layer layer;
  if (config.norms != NormPlacement::kAfter) layer.push_back({"input_layernorm.weight", hidden});
  add_attention(layer, config);
  layer.push_back({"post_attention_layernorm.weight", hidden});
  if (config.norms == NormPlacement::kBoth) {
    layer.push_back({"pre_feedforward_layernorm.weight", hidden});
  }
  add_feed_forward(layer, config, kind.has_experts);
  if (config.norms != NormPlacement::kBefore) {
    layer.push_back({"post_feedforward_layernorm.weight", hidden});
  }
  return layer;
}

}  // namespace

std::uint64_t RowOrder::source_row(std::uint64_t row) const {
  if (head_size == 0) return row;
  const std::uint64_t inner = row % head_size;
  if (inner >= rotary) return row;
  const std::uint64_t half = rotary / 2;
  return row - inner + (inner < half ? 2 * inner : 2 * (inner - half) + 1);
}

Result<TensorPlan> plan_tensors(const TensorSource& source, const DecoderConfig& config) {
  const Shape table = {config.vocabulary_size, config.hidden_size};
  Planner planner(source, config);
  PACELINE_RETURN_IF_ERROR(planner.add({"model.embed_tokens.weight", table}));
  for (std::uint32_t i = 0; i < config.layers.size(); ++i) {
    for (Wanted& wanted : layer_tensors(config, config.layers[i])) {
      wanted.name = fmt::format("model.layers.{}.{}", i, wanted.name);
      PACELINE_RETURN_IF_ERROR(planner.add(std::move(wanted)));
    }
  }
  PACELINE_RETURN_IF_ERROR(planner.add({"model.norm.weight", {config.hidden_size}}));
  if (!config.tied_head) PACELINE_RETURN_IF_ERROR(planner.add({"lm_head.weight", table}));
  return planner.finish();
}

}  // namespace paceline::compiler
