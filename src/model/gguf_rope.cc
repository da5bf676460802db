#include "model/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/config_limits.h"
#include "model/dequantize.h"

namespace paceline::model {
namespace {

constexpr const char* kDivisors = "rope_freqs.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";
constexpr const char* kLongFactors = "rope_factors_long.weight";

/// The values of a tensor [count], each positive.
Result<std::vector<float>> read_factors(const GgufFile& file, const char* name,
                                        std::uint64_t count) {
  PACELINE_ASSIGN_OR_RETURN(const TensorInfo* tensor, file.find(name));
  if (tensor->shape != std::vector<std::uint64_t>{count}) {
    return fail(ErrorCode::kDataLoss, "{}: tensor \"{}\": has the shape {}, expected {}",
                file.name(), name, fmt::join(tensor->shape, " x "), count);
  }
  std::vector<std::byte> bytes(tensor->size_bytes);  // of at most 2^19 elements
  PACELINE_RETURN_IF_ERROR(file.read(*tensor, 0, bytes));
  std::vector<float> values(count);
  dequantize(tensor->type, bytes, values);
  for (const float value : values) {
    if (std::isfinite(value) && value > 0.0F) continue;
    return fail(ErrorCode::kDataLoss, "{}: tensor \"{}\": has a value of {}, expected more than 0",
                file.name(), name, value);
  }
  return values;
}

Status read_yarn(const GgufKeys& keys, const DecoderConfig& config, RopeConfig& rope) {
  rope.scaling = RopeScaling::kYarn;
  PACELINE_ASSIGN_OR_RETURN(
      rope.original_context_tokens,
      keys.size_or("rope.scaling.original_context_length", kMaxContext, config.context_tokens));
  PACELINE_ASSIGN_OR_RETURN(rope.beta_fast, keys.nonzero_or("rope.scaling.yarn_beta_fast", 32.0F));
  PACELINE_ASSIGN_OR_RETURN(rope.beta_slow, keys.nonzero_or("rope.scaling.yarn_beta_slow", 1.0F));
  const float magnitude = rope.factor <= 1.0F ? 1.0F : 0.1F * std::log(rope.factor) + 1.0F;
  PACELINE_ASSIGN_OR_RETURN(const float own,
                            keys.nonzero_or("rope.scaling.yarn_attn_factor", magnitude));
  PACELINE_ASSIGN_OR_RETURN(const float more, keys.nonzero_or("rope.scaling.attn_factor", 1.0F));
  rope.attention_factor = own * more;
  return {};
}

Status read_long_rope(const GgufKeys& keys, const DecoderConfig& config, RopeConfig& rope) {
  rope.scaling = RopeScaling::kLongRope;
  const std::uint64_t count = config.rope_dimensions / 2;
  PACELINE_ASSIGN_OR_RETURN(rope.short_factors, read_factors(keys.file(), kShortFactors, count));
  PACELINE_ASSIGN_OR_RETURN(rope.long_factors, read_factors(keys.file(), kLongFactors, count));
  constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
  PACELINE_ASSIGN_OR_RETURN(rope.original_context_tokens, keys.size(kOriginal, kMaxContext));
  if (rope.original_context_tokens < 2) {
    return keys.wrong(kOriginal, rope.original_context_tokens, "2 or more");
  }
  const double original = rope.original_context_tokens;
  const double ratio = config.context_tokens / original;
  rope.factor = static_cast<float>(ratio);
  const double magnitude =
      ratio <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(ratio) / std::log(original));
  PACELINE_ASSIGN_OR_RETURN(rope.attention_factor, keys.nonzero_or("rope.scaling.attn_factor",
                                                                   static_cast<float>(magnitude)));
  return {};
}

Status read_scaling(const GgufArchitecture& architecture, const GgufKeys& keys,
                    const DecoderConfig& config, RopeConfig& rope) {
  constexpr std::string_view kType = "rope.scaling.type";
  std::string type = "linear";
  if (keys.has(kType)) {
    PACELINE_ASSIGN_OR_RETURN(type, keys.file().string_value(keys.full(kType)));
  }
  const bool has_factors = keys.file().find(kLongFactors).has_value();
  if (type == "longrope" || (architecture.has_long_rope && has_factors)) {
    return read_long_rope(keys, config, rope);
  }
  if (type == "none") return {};
  // An older name of the same.
  PACELINE_ASSIGN_OR_RETURN(const float old, keys.nonzero_or("rope.scale_linear", 1.0F));
  PACELINE_ASSIGN_OR_RETURN(rope.factor, keys.nonzero_or("rope.scaling.factor", old));
  if (type == "yarn") return read_yarn(keys, config, rope);
  if (type != "linear") {
    return keys.wrong(kType, in_quotes(type), "none, linear, yarn or longrope",
                      ErrorCode::kUnimplemented);
  }
  if (rope.factor != 1.0F) rope.scaling = RopeScaling::kLinear;
  return {};
}

Status read_divisors(const GgufArchitecture& architecture, const GgufKeys& keys,
                     const DecoderConfig& config, RopeConfig& rope) {
  if (!keys.file().find(kDivisors)) return {};
  if (!architecture.has_rope_divisors) {
    return fail(ErrorCode::kUnimplemented, "{}: tensor \"{}\": is there, expected none in {}",
                keys.file().name(), kDivisors, architecture.name);
  }
  PACELINE_ASSIGN_OR_RETURN(rope.divisors,
                            read_factors(keys.file(), kDivisors, config.rope_dimensions / 2));
  return {};
}

}  // namespace

Status read_gguf_ropes(const GgufArchitecture& architecture, const GgufKeys& keys,
                       DecoderConfig& config) {
  RopeConfig global;
  PACELINE_ASSIGN_OR_RETURN(global.theta, keys.positive_or("rope.freq_base", 10000.0F));
  constexpr std::string_view kDimensions = "rope.dimension_count";
  PACELINE_ASSIGN_OR_RETURN(config.rope_dimensions,
                            keys.size_or(kDimensions, kMaxSize, config.head_size));
  if (config.rope_dimensions % 2 != 0 || config.rope_dimensions > config.head_size) {
    return keys.wrong(kDimensions, config.rope_dimensions,
                      fmt::format("an even number up to the head size {}", config.head_size));
  }
  PACELINE_RETURN_IF_ERROR(read_scaling(architecture, keys, config, global));
  PACELINE_RETURN_IF_ERROR(read_divisors(architecture, keys, config, global));
  RopeConfig local;
  local.theta = global.theta;
  config.ropes.push_back(std::move(global));
  const bool slides = std::any_of(config.layers.begin(), config.layers.end(),
                                  [](const LayerConfig& layer) { return layer.window_tokens > 0; });
  if (!slides || architecture.local_rope == GgufLocalRope::kSame) return {};
  const float base =
      architecture.local_rope == GgufLocalRope::kUnscaledOwnBase ? 10000.0F : local.theta;
  PACELINE_ASSIGN_OR_RETURN(local.theta, keys.positive_or("rope.freq_base_swa", base));
  config.ropes.push_back(std::move(local));
  for (LayerConfig& layer : config.layers) layer.rope = layer.window_tokens > 0 ? 1 : 0;
  return {};
}

}  // namespace paceline::model
