#include "model/hf_quantization.h"

#include <nlohmann/json.hpp>
#include <string>

#include "model/config_limits.h"

namespace paceline::model {
namespace {

/// Rows and columns that share a factor, from a field like [128, 128]; null: none share.
Status read_block(const ConfigFields& fields, const char* name, DecoderConfig& config) {
  if (!fields.has(name)) return {};
  PACELINE_ASSIGN_OR_RETURN(const auto sizes, fields.integers(name, kMaxSize));
  if (sizes.size() != 2 || sizes[0] == 0 || sizes[1] == 0) {
    return fields.wrong(name, "the rows and the columns of a block");
  }
  config.fp8_block_rows = static_cast<std::uint32_t>(sizes[0]);
  config.fp8_block_columns = static_cast<std::uint32_t>(sizes[1]);
  return {};
}

Status read_fine_grained(const ConfigFields& fields, DecoderConfig& config) {
  if (fields.has("fmt")) {
    PACELINE_ASSIGN_OR_RETURN(const auto format, fields.text("fmt"));
    if (format != "e4m3") return fields.wrong("fmt", "e4m3", ErrorCode::kUnimplemented);
  }
  return read_block(fields, "weight_block_size", config);
}

/// The layout of compressed-tensors: one group for all weights.
Status read_compressed(const ConfigFields& fields, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto format, fields.text("format"));
  if (format != "float-quantized") {
    return fields.wrong("format", "float-quantized", ErrorCode::kUnimplemented);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto groups, fields.object("config_groups"));
  if (fields.find("config_groups")->size() != 1) {
    return fields.wrong("config_groups", "one group", ErrorCode::kUnimplemented);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto group,
                            groups.object(fields.find("config_groups")->begin().key()));
  PACELINE_ASSIGN_OR_RETURN(const auto weights, group.object("weights"));
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t bits, weights.size("num_bits", 64));
  PACELINE_ASSIGN_OR_RETURN(const auto type, weights.text("type"));
  PACELINE_ASSIGN_OR_RETURN(const auto strategy, weights.text("strategy"));
  if (bits != 8) return weights.wrong("num_bits", "8", ErrorCode::kUnimplemented);
  if (type != "float") return weights.wrong("type", "float", ErrorCode::kUnimplemented);
  if (strategy == "block") return read_block(weights, "block_structure", config);
  if (strategy == "tensor" || strategy == "channel") return {};
  return weights.wrong("strategy", "tensor, channel or block", ErrorCode::kUnimplemented);
}

}  // namespace

Status read_hf_quantization(const ConfigFields& root, DecoderConfig& config) {
  if (!root.has("quantization_config")) return {};
  PACELINE_ASSIGN_OR_RETURN(const auto fields, root.object("quantization_config"));
  PACELINE_ASSIGN_OR_RETURN(const auto method, fields.text("quant_method"));
  config.fp8_scales = true;
  if (method == "fp8") return read_fine_grained(fields, config);
  if (method == "compressed-tensors") return read_compressed(fields, config);
  return fields.wrong("quant_method", "fp8 or compressed-tensors", ErrorCode::kUnimplemented);
}

}  // namespace paceline::model
