#include "model/hf_rope.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/config_limits.h"

namespace paceline::model {
namespace {

constexpr std::array<const char*, 2> kLayerTypes = {"full_attention", "sliding_attention"};

/// One rope's fields and what they fall back to.
struct RopeFields {
  const HfArchitecture& architecture;
  const ConfigFields& root;
  std::optional<ConfigFields> own;  ///< none: default everything
  const char* root_theta;           ///< the root's field of theta in the older form
  const DecoderConfig& config;
};

bool gives(const RopeFields& fields, const char* name) {
  return fields.own && fields.own->has(name);
}

/// One of kinds that stretch a context needs the length that it was trained for.
Result<std::uint32_t> original_context(const RopeFields& fields) {
  constexpr const char* kName = "original_max_position_embeddings";
  if (fields.root.has(kName)) return fields.root.size(kName, kMaxContext);
  return fields.own->size_or(kName, kMaxContext, fields.config.context_tokens);
}

Result<RopeScaling> read_type(const RopeFields& fields) {
  const bool has_new = gives(fields, "rope_type");
  const bool has_old = gives(fields, "type");
  if (!has_new && !has_old) return RopeScaling::kNone;
  const char* name = has_new ? "rope_type" : "type";
  PACELINE_ASSIGN_OR_RETURN(const std::string type, fields.own->text(name));
  if (has_new && has_old && *fields.own->find("type") != type) {
    return fields.own->wrong("type", "the same as rope_type");
  }
  if (type == "default") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "dynamic") return RopeScaling::kDynamic;
  if (type == "llama3") return RopeScaling::kLlama3;
  if (type == "longrope" || type == "su") return RopeScaling::kLongRope;
  if (type == "yarn") {
    return fields.architecture.yarn_is_long_rope ? RopeScaling::kLongRope : RopeScaling::kYarn;
  }
  return fields.own->wrong(name, "default, linear, dynamic, llama3, yarn, longrope or su",
                           ErrorCode::kUnimplemented);
}

Status read_llama3(const RopeFields& fields, RopeConfig& rope) {
  PACELINE_ASSIGN_OR_RETURN(rope.factor, fields.own->positive("factor"));
  PACELINE_ASSIGN_OR_RETURN(rope.low_frequency_factor, fields.own->positive("low_freq_factor"));
  PACELINE_ASSIGN_OR_RETURN(rope.high_frequency_factor, fields.own->positive("high_freq_factor"));
  PACELINE_ASSIGN_OR_RETURN(rope.original_context_tokens, original_context(fields));
  if (rope.high_frequency_factor > rope.low_frequency_factor) return {};
  return fields.own->wrong("high_freq_factor", "more than low_freq_factor");
}

double yarn_magnitude(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

Status read_yarn(const RopeFields& fields, RopeConfig& rope) {
  PACELINE_ASSIGN_OR_RETURN(rope.original_context_tokens, original_context(fields));
  const float ratio = static_cast<float>(fields.config.context_tokens) /
                      static_cast<float>(rope.original_context_tokens);
  if (!fields.own->says("factor")) return fields.own->wrong("factor", "a number or null");
  PACELINE_ASSIGN_OR_RETURN(rope.factor, fields.own->positive_or("factor", ratio));
  PACELINE_ASSIGN_OR_RETURN(rope.beta_fast, fields.own->positive_or("beta_fast", 32.0F));
  PACELINE_ASSIGN_OR_RETURN(rope.beta_slow, fields.own->positive_or("beta_slow", 1.0F));
  PACELINE_ASSIGN_OR_RETURN(rope.truncate, fields.own->flag_or("truncate", true));
  double magnitude = yarn_magnitude(rope.factor, 1.0);
  if (fields.own->has("mscale") && fields.own->has("mscale_all_dim")) {
    PACELINE_ASSIGN_OR_RETURN(const float above, fields.own->positive("mscale"));
    PACELINE_ASSIGN_OR_RETURN(const float below, fields.own->positive("mscale_all_dim"));
    magnitude = yarn_magnitude(rope.factor, above) / yarn_magnitude(rope.factor, below);
  }
  PACELINE_ASSIGN_OR_RETURN(
      rope.attention_factor,
      fields.own->positive_or("attention_factor", static_cast<float>(magnitude)));
  return {};
}

Status read_long_rope(const RopeFields& fields, RopeConfig& rope) {
  PACELINE_ASSIGN_OR_RETURN(rope.original_context_tokens, original_context(fields));
  const std::size_t count = fields.config.rope_dimensions / 2;
  const auto read = [&](const char* name, std::vector<float>& factors) -> Status {
    PACELINE_ASSIGN_OR_RETURN(factors, fields.own->positives(name));
    if (factors.size() == count) return {};
    return fields.own->wrong(name, fmt::format("{} numbers, one of each frequency", count));
  };
  PACELINE_RETURN_IF_ERROR(read("short_factor", rope.short_factors));
  PACELINE_RETURN_IF_ERROR(read("long_factor", rope.long_factors));
  const float ratio = static_cast<float>(fields.config.context_tokens) /
                      static_cast<float>(rope.original_context_tokens);
  PACELINE_ASSIGN_OR_RETURN(rope.factor, fields.own->positive_or("factor", ratio));
  double magnitude = 1.0;
  if (rope.factor > 1.0F) {
    if (rope.original_context_tokens < 2) {
      return fields.root.wrong("original_max_position_embeddings", "2 or more");
    }
    magnitude = std::sqrt(1.0 + std::log(static_cast<double>(rope.factor)) /
                                    std::log(static_cast<double>(rope.original_context_tokens)));
  }
  PACELINE_ASSIGN_OR_RETURN(
      rope.attention_factor,
      fields.own->positive_or("attention_factor", static_cast<float>(magnitude)));
  return {};
}

Status read_theta(const RopeFields& fields, RopeConfig& rope) {
  if (!gives(fields, "rope_theta")) {
    PACELINE_ASSIGN_OR_RETURN(rope.theta, fields.root.positive(fields.root_theta));
    return {};
  }
  PACELINE_ASSIGN_OR_RETURN(rope.theta, fields.own->positive("rope_theta"));
  if (!fields.root.gives(fields.root_theta)) return {};
  PACELINE_ASSIGN_OR_RETURN(const float again, fields.root.positive(fields.root_theta));
  if (again == rope.theta) return {};
  return fields.root.wrong(fields.root_theta, fmt::format("{} as the rope's own", rope.theta));
}

Result<RopeConfig> read_rope(const RopeFields& fields) {
  RopeConfig rope;
  PACELINE_RETURN_IF_ERROR(read_theta(fields, rope));
  PACELINE_ASSIGN_OR_RETURN(rope.scaling, read_type(fields));
  switch (rope.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kDynamic:
      rope.original_context_tokens = fields.config.context_tokens;
      [[fallthrough]];
    case RopeScaling::kLinear: {
      PACELINE_ASSIGN_OR_RETURN(rope.factor, fields.own->positive("factor"));
      break;
    }
    case RopeScaling::kLlama3:
      PACELINE_RETURN_IF_ERROR(read_llama3(fields, rope));
      break;
    case RopeScaling::kYarn:
      PACELINE_RETURN_IF_ERROR(read_yarn(fields, rope));
      break;
    case RopeScaling::kLongRope:
      PACELINE_RETURN_IF_ERROR(read_long_rope(fields, rope));
      break;
  }
  return rope;
}

/// The object of rope's fields: rope_parameters or, older, rope_scaling.
Result<std::optional<ConfigFields>> rope_object(const ConfigFields& fields) {
  const bool has_new = fields.has("rope_parameters");
  const bool has_old = fields.has("rope_scaling");
  if (has_new && has_old && *fields.find("rope_parameters") != *fields.find("rope_scaling")) {
    return fields.wrong("rope_scaling", "nothing beside rope_parameters");
  }
  if (!has_new && !has_old) return std::optional<ConfigFields>();
  PACELINE_ASSIGN_OR_RETURN(auto own, fields.object(has_new ? "rope_parameters" : "rope_scaling"));
  return std::optional<ConfigFields>(std::move(own));
}

Status read_dimensions(const HfArchitecture& architecture, const ConfigFields& fields,
                       const std::optional<ConfigFields>& own, DecoderConfig& config) {
  constexpr const char* kName = "partial_rotary_factor";
  const bool is_own = own && own->has(kName);
  const ConfigFields& from = is_own ? *own : fields;
  PACELINE_ASSIGN_OR_RETURN(const float part, from.positive_or(kName, 1.0F));
  if (part > 1.0F) return from.wrong(kName, "1 or less");
  if (part < 1.0F && !architecture.has_partial_rotary) {
    return from.wrong(kName, fmt::format("1, as {} has it", architecture.name),
                      ErrorCode::kUnimplemented);
  }
  // As transformers rounds it: towards zero, in double.
  const double exact = from.has(kName) ? from.find(kName)->get<double>() : 1.0;
  config.rope_dimensions = static_cast<std::uint32_t>(config.head_size * exact);
  if (config.rope_dimensions >= 2 && config.rope_dimensions % 2 == 0) return {};
  const std::string expected =
      fmt::format("an even number of the head's {} elements to turn, not {}", config.head_size,
                  config.rope_dimensions);
  return from.wrong(from.has(kName) ? kName : "head_dim", expected);
}

}  // namespace

Status read_hf_ropes(const HfArchitecture& architecture, const ConfigFields& fields,
                     DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto object, rope_object(fields));
  PACELINE_RETURN_IF_ERROR(read_dimensions(architecture, fields, object, config));
  RopeFields global = {architecture, fields, object, "rope_theta", config};
  if (!architecture.has_local_rope) {
    for (const char* type : kLayerTypes) {
      if (object && object->has(type)) return object->wrong(type, "one rope for all layers");
    }
    PACELINE_ASSIGN_OR_RETURN(config.ropes.emplace_back(), read_rope(global));
    return {};
  }
  RopeFields local = {architecture, fields, std::nullopt, "rope_local_base_freq", config};
  if (fields.has("rope_parameters")) {  // the newer form has an object of each layer type
    const auto of_type = [&](const char* type, std::optional<ConfigFields>& own) -> Status {
      own.reset();
      if (!object->says(type)) return object->wrong(type, "an object, one of each layer type");
      if (!object->has(type)) return {};
      PACELINE_ASSIGN_OR_RETURN(own, object->object(type));
      PACELINE_ASSIGN_OR_RETURN(const float part, own->positive_or("partial_rotary_factor", 1.0F));
      if (part == 1.0F) return {};
      return own->wrong("partial_rotary_factor", "1", ErrorCode::kUnimplemented);
    };
    PACELINE_RETURN_IF_ERROR(of_type(kLayerTypes[0], global.own));
    PACELINE_RETURN_IF_ERROR(of_type(kLayerTypes[1], local.own));
  }
  PACELINE_ASSIGN_OR_RETURN(config.ropes.emplace_back(), read_rope(global));
  PACELINE_ASSIGN_OR_RETURN(config.ropes.emplace_back(), read_rope(local));
  return {};
}

}  // namespace paceline::model
