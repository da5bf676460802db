#include "model/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "model/config_fields.h"
#include "model/config_limits.h"
#include "model/foreign_text.h"
#include "model/hf_architectures.h"
#include "model/hf_layers.h"
#include "model/hf_quantization.h"
#include "model/hf_rope.h"
#include "system/files.h"

namespace paceline::model {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = 4U << 20;
constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxValues = 200'000;
constexpr std::size_t kMaxTokenIds = 256;

struct NamedText {
  std::string name;  ///< of the file, for messages
  std::string_view text;
};

Result<Json> parse_object(const NamedText& file) {
  auto parsed = parse_json(file.text, kMaxDepth, kMaxValues);
  if (!parsed) return fail(parsed.error().with_context(file.name));
  if (parsed->is_object()) return parsed;
  return fail(ErrorCode::kInvalidArgument, "{}: is {}, expected an object", file.name,
              shown(*parsed));
}

Result<const HfArchitecture*> find_architecture(const ConfigFields& root) {
  std::vector<std::string_view> names;
  for (const HfArchitecture& row : hf_architectures()) names.push_back(row.name);
  const std::string expected = fmt::format("one of {}", fmt::join(names, ", "));
  PACELINE_ASSIGN_OR_RETURN(const auto given, root.texts("architectures"));
  if (given.size() != 1) return root.wrong("architectures", "an array of one name");
  for (const HfArchitecture& row : hf_architectures()) {
    if (row.name != given[0]) continue;
    if (!root.has("model_type")) return &row;
    PACELINE_ASSIGN_OR_RETURN(const auto type, root.text("model_type"));
    if (type == row.model_type) return &row;
    return root.wrong("model_type", fmt::format("{}, as {} has it", row.model_type, row.name));
  }
  return fail(ErrorCode::kUnimplemented, "{}: field \"architectures\": is {}, expected {}",
              root.file(), in_quotes(given[0]), expected);
}

Status read_sizes(const ConfigFields& fields, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto layers, fields.size("num_hidden_layers", kMaxLayers));
  config.layers.resize(layers);
  PACELINE_ASSIGN_OR_RETURN(config.hidden_size, fields.size("hidden_size", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.intermediate_size, fields.size("intermediate_size", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.vocabulary_size, fields.size("vocab_size", kMaxVocabulary));
  PACELINE_ASSIGN_OR_RETURN(config.context_tokens,
                            fields.size("max_position_embeddings", kMaxContext));
  PACELINE_ASSIGN_OR_RETURN(config.rms_norm_epsilon, fields.positive("rms_norm_eps"));
  return {};
}

Status read_heads(const ConfigFields& fields, DecoderConfig& config) {
  constexpr const char* kKeyValueHeads = "num_key_value_heads";
  PACELINE_ASSIGN_OR_RETURN(config.attention_heads, fields.size("num_attention_heads", kMaxHeads));
  if (!fields.says(kKeyValueHeads)) return fields.wrong(kKeyValueHeads, "an integer");
  PACELINE_ASSIGN_OR_RETURN(config.key_value_heads,
                            fields.size_or(kKeyValueHeads, kMaxHeads, config.attention_heads));
  if (config.attention_heads % config.key_value_heads != 0) {
    return fields.wrong(kKeyValueHeads,
                        fmt::format("a divisor of the {} attention heads", config.attention_heads));
  }
  if (fields.has("head_dim")) {
    PACELINE_ASSIGN_OR_RETURN(config.head_size, fields.size("head_dim", kMaxSize));
    return {};
  }
  if (config.hidden_size % config.attention_heads != 0) {
    return fields.wrong("num_attention_heads",
                        fmt::format("a divisor of the hidden size {}", config.hidden_size));
  }
  config.head_size = config.hidden_size / config.attention_heads;
  return {};
}

Status read_activation(const ConfigFields& fields, std::string_view name, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto activation, fields.text(name));
  if (activation == "silu" || activation == "swish") {
    config.activation = Activation::kSilu;
  } else if (activation == "gelu_pytorch_tanh") {
    config.activation = Activation::kGeluTanh;
  } else {
    return fields.wrong(name, "silu or gelu_pytorch_tanh", ErrorCode::kUnimplemented);
  }
  return {};
}

Status read_biases(const HfArchitecture& architecture, const ConfigFields& fields,
                   DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const bool attention, fields.flag_or("attention_bias", false));
  PACELINE_ASSIGN_OR_RETURN(const bool feed_forward, fields.flag_or("mlp_bias", false));
  const bool heeds = architecture.attention_bias == HfBias::kAsAttentionBiasSays;
  if (attention && !heeds) {
    return fields.wrong("attention_bias", fmt::format("false, as {} has it", architecture.name));
  }
  if (feed_forward && !architecture.has_mlp_bias) {
    return fields.wrong("mlp_bias", fmt::format("false, as {} has it", architecture.name));
  }
  config.query_key_value_bias = attention || architecture.attention_bias == HfBias::kQueryKeyValue;
  config.attention_output_bias = attention;
  config.feed_forward_bias = feed_forward;
  return {};
}

/// The ids under an optional field; -1, which some files have, is none.
Result<std::vector<std::int64_t>> token_ids(const ConfigFields& fields, std::string_view name,
                                            std::uint32_t vocabulary) {
  const Json* value = fields.find(name);
  if (value == nullptr || *value == -1) return std::vector<std::int64_t>();
  PACELINE_ASSIGN_OR_RETURN(auto ids, fields.integers(name, std::int64_t{vocabulary} - 1));
  if (ids.size() > kMaxTokenIds) {
    return fields.wrong(name, fmt::format("at most {} ids", kMaxTokenIds));
  }
  std::vector<std::int64_t> once;
  for (const std::int64_t id : ids) {
    if (std::find(once.begin(), once.end(), id) == once.end()) once.push_back(id);
  }
  return once;
}

/// `places` are objects that may have the fields, the first one that has them counts.
Status read_tokens(const std::vector<ConfigFields>& places, DecoderConfig& config) {
  const auto read = [&](std::string_view name) -> Result<std::vector<std::int64_t>> {
    for (const ConfigFields& fields : places) {
      if (fields.has(name)) return token_ids(fields, name, config.vocabulary_size);
    }
    return std::vector<std::int64_t>();
  };
  PACELINE_ASSIGN_OR_RETURN(config.eos_token_ids, read("eos_token_id"));
  PACELINE_ASSIGN_OR_RETURN(const auto begin, read("bos_token_id"));
  PACELINE_ASSIGN_OR_RETURN(const auto padding, read("pad_token_id"));
  if (!begin.empty()) config.bos_token_id = begin.front();
  if (!padding.empty()) config.padding_token_id = padding.front();
  return {};
}

Status read_decoder(const HfArchitecture& architecture, const ConfigFields& root,
                    const ConfigFields& fields, DecoderConfig& config) {
  config.architecture = architecture.name;
  config.norms = architecture.norms;
  config.query_key_norm = architecture.query_key_norm;
  PACELINE_RETURN_IF_ERROR(read_sizes(fields, config));
  PACELINE_RETURN_IF_ERROR(read_heads(fields, config));
  PACELINE_RETURN_IF_ERROR(read_activation(fields, architecture.activation_field, config));
  PACELINE_RETURN_IF_ERROR(read_biases(architecture, fields, config));
  PACELINE_RETURN_IF_ERROR(read_hf_layers(architecture, fields, config));
  PACELINE_RETURN_IF_ERROR(read_hf_ropes(architecture, fields, config));
  const ConfigFields& ties = root.gives("tie_word_embeddings") ? root : fields;
  PACELINE_ASSIGN_OR_RETURN(config.tied_head, ties.flag_or("tie_word_embeddings", false));
  PACELINE_RETURN_IF_ERROR(read_hf_quantization(root, config));
  return architecture.read_more == nullptr ? Status() : architecture.read_more(fields, config);
}

Result<DecoderConfig> read_documents(const NamedText& config_file,
                                     const NamedText& generation_file) {
  PACELINE_ASSIGN_OR_RETURN(const Json document, parse_object(config_file));
  ConfigFields root(config_file.name, &document);
  PACELINE_ASSIGN_OR_RETURN(const HfArchitecture* architecture, find_architecture(root));
  const Json defaults = Json::parse(architecture->defaults);
  ConfigFields fields(config_file.name, &document, &defaults);
  if (architecture->is_in_text_config) {
    PACELINE_ASSIGN_OR_RETURN(fields, root.object("text_config"));
    fields.assume(&defaults);
  }
  DecoderConfig config;
  PACELINE_RETURN_IF_ERROR(read_decoder(*architecture, root, fields, config));
  std::vector<ConfigFields> places = {root, fields};
  Json generation;
  if (!generation_file.text.empty()) {
    PACELINE_ASSIGN_OR_RETURN(generation, parse_object(generation_file));
    places.insert(places.begin(), ConfigFields(generation_file.name, &generation));
  }
  PACELINE_RETURN_IF_ERROR(read_tokens(places, config));
  return config;
}

}  // namespace

Result<DecoderConfig> parse_hf_config(std::string_view config, std::string_view generation_config) {
  return read_documents({"config.json", config}, {"generation_config.json", generation_config});
}

Result<DecoderConfig> read_hf_config(const std::filesystem::path& directory) {
  const auto config_path = directory / "config.json";
  const auto generation_path = directory / "generation_config.json";
  PACELINE_ASSIGN_OR_RETURN(const auto text, system::read_text_file(config_path, kMaxFileBytes));
  std::string generation_text;
  std::error_code ignored;
  if (std::filesystem::exists(generation_path, ignored)) {
    PACELINE_ASSIGN_OR_RETURN(generation_text,
                              system::read_text_file(generation_path, kMaxFileBytes));
  }
  PACELINE_ASSIGN_OR_RETURN(
      auto config,
      read_documents({config_path.string(), text}, {generation_path.string(), generation_text}));
  const auto normal = std::filesystem::absolute(directory, ignored).lexically_normal();
  config.name = (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  return config;
}

}  // namespace paceline::model
