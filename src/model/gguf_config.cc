// What GGUF's keys mean: the configuration of a decoder and the vocabulary.
#include <algorithm>
#include <string>

#include "model/foreign_text.h"
#include "model/gguf.h"

namespace paceline::model {
namespace {

constexpr std::uint32_t kMaxLayers = 1024;
constexpr std::uint32_t kMaxSize = 1U << 20;  ///< of hidden and feed-forward vectors
constexpr std::uint32_t kMaxHeads = 1U << 14;
constexpr std::uint32_t kMaxContext = INT32_MAX;

/// Look-ups of one architecture's keys that are optional or bounded.
class Keys {
 public:
  Keys(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  Result<std::uint32_t> size(std::string_view key, std::uint32_t most) const {
    PACELINE_ASSIGN_OR_RETURN(const std::uint64_t value, file_.unsigned_value(full(key)));
    if (value >= 1 && value <= most) return static_cast<std::uint32_t>(value);
    return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected 1 to {}", file_.name(),
                in_quotes(full(key)), value, most);
  }
  Result<std::uint32_t> size_or(std::string_view key, std::uint32_t most,
                                std::uint32_t otherwise) const {
    if (!file_.has(full(key))) return otherwise;
    return size(key, most);
  }
  Result<float> positive(std::string_view key) const {
    PACELINE_ASSIGN_OR_RETURN(const float value, file_.float_value(full(key)));
    if (value > 0.0F) return value;
    return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected more than 0", file_.name(),
                in_quotes(full(key)), value);
  }
  Result<float> positive_or(std::string_view key, float otherwise) const {
    if (!file_.has(full(key))) return otherwise;
    return positive(key);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

/// The id under an optional key, -1 without it; refused where it is not below `tokens`.
Result<std::int64_t> token_id(const GgufFile& file, std::string_view key, std::uint64_t tokens) {
  if (!file.has(key)) return -1;
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t id, file.unsigned_value(key));
  if (id < tokens) return static_cast<std::int64_t>(id);
  return fail(ErrorCode::kDataLoss, "{}: metadata {}: is {}, expected less than the {} tokens",
              file.name(), in_quotes(key), id, tokens);
}

Status read_sizes(const Keys& keys, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto layers, keys.size("block_count", kMaxLayers));
  config.layers.resize(layers);
  PACELINE_ASSIGN_OR_RETURN(config.hidden_size, keys.size("embedding_length", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.intermediate_size, keys.size("feed_forward_length", kMaxSize));
  PACELINE_ASSIGN_OR_RETURN(config.context_tokens, keys.size("context_length", kMaxContext));
  PACELINE_ASSIGN_OR_RETURN(config.attention_heads, keys.size("attention.head_count", kMaxHeads));
  PACELINE_ASSIGN_OR_RETURN(
      config.key_value_heads,
      keys.size_or("attention.head_count_kv", kMaxHeads, config.attention_heads));
  PACELINE_ASSIGN_OR_RETURN(config.rms_norm_epsilon,
                            keys.positive("attention.layer_norm_rms_epsilon"));
  return {};
}

Status read_head_size(const GgufFile& file, const Keys& keys, DecoderConfig& config) {
  const bool explicit_size = file.has(keys.full("attention.key_length"));
  if (!explicit_size && config.hidden_size % config.attention_heads != 0) {
    return fail(ErrorCode::kDataLoss,
                "{}: metadata {}: is {}, expected a divisor of the embedding length {}",
                file.name(), in_quotes(keys.full("attention.head_count")), config.attention_heads,
                config.hidden_size);
  }
  if (config.attention_heads % config.key_value_heads != 0) {
    return fail(ErrorCode::kDataLoss,
                "{}: metadata {}: is {}, expected a divisor of the {} attention heads", file.name(),
                in_quotes(keys.full("attention.head_count_kv")), config.key_value_heads,
                config.attention_heads);
  }
  const std::uint32_t divided = config.hidden_size / config.attention_heads;
  PACELINE_ASSIGN_OR_RETURN(config.head_size,
                            keys.size_or("attention.key_length", kMaxSize, divided));
  PACELINE_ASSIGN_OR_RETURN(const auto value_size,
                            keys.size_or("attention.value_length", kMaxSize, config.head_size));
  if (value_size != config.head_size) {
    return fail(ErrorCode::kUnimplemented, "{}: metadata {}: is {}, expected the key length {}",
                file.name(), in_quotes(keys.full("attention.value_length")), value_size,
                config.head_size);
  }
  return {};
}

Status read_rope(const GgufFile& file, const Keys& keys, DecoderConfig& config) {
  RopeConfig& rope = config.ropes.emplace_back();
  PACELINE_ASSIGN_OR_RETURN(rope.theta, keys.positive_or("rope.freq_base", 10000.0F));
  PACELINE_ASSIGN_OR_RETURN(config.rope_dimensions,
                            keys.size_or("rope.dimension_count", kMaxSize, config.head_size));
  if (config.rope_dimensions % 2 != 0 || config.rope_dimensions > config.head_size) {
    return fail(ErrorCode::kDataLoss,
                "{}: metadata {}: is {}, expected an even number up to the head size {}",
                file.name(), in_quotes(keys.full("rope.dimension_count")), config.rope_dimensions,
                config.head_size);
  }
  const std::string scaling = keys.full("rope.scaling.type");
  if (!file.has(scaling)) return {};
  PACELINE_ASSIGN_OR_RETURN(const std::string kind, file.string_value(scaling));
  if (kind == "linear") {
    rope.scaling = RopeScaling::kLinear;
    PACELINE_ASSIGN_OR_RETURN(rope.factor, keys.positive_or("rope.scaling.factor", 1.0F));
  } else if (kind != "none") {
    return fail(ErrorCode::kUnimplemented, "{}: metadata {}: is {}, expected none or linear",
                file.name(), in_quotes(scaling), in_quotes(kind));
  }
  return {};
}

Status read_tokens(const GgufFile& file, DecoderConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const TensorInfo* embedding, file.find("token_embd.weight"));
  if (embedding->shape.size() != 2 || embedding->shape[0] > INT32_MAX) {
    return fail(ErrorCode::kDataLoss,
                "{}: tensor \"token_embd.weight\": has {} dimensions, expected 2 (a row per token)",
                file.name(), embedding->shape.size());
  }
  config.vocabulary_size = static_cast<std::uint32_t>(embedding->shape[0]);
  config.tied_head = !file.find("output.weight").has_value();
  const std::uint64_t tokens = config.vocabulary_size;
  PACELINE_ASSIGN_OR_RETURN(config.bos_token_id,
                            token_id(file, "tokenizer.ggml.bos_token_id", tokens));
  PACELINE_ASSIGN_OR_RETURN(config.padding_token_id,
                            token_id(file, "tokenizer.ggml.padding_token_id", tokens));
  // Ends of a text, of a turn, and of a message that waits for a tool's answer: all end a reply.
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t id, token_id(file, key, tokens));
    auto& ids = config.eos_token_ids;
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return {};
}

/// A mixture of experts has the architecture's name but another graph.
Status refuse_experts(const GgufFile& file, const Keys& keys) {
  const std::string key = keys.full("expert_count");
  if (!file.has(key)) return {};
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t experts, file.unsigned_value(key));
  if (experts == 0) return {};
  return fail(ErrorCode::kUnimplemented, "{}: metadata {}: is {}, expected no experts", file.name(),
              in_quotes(key), experts);
}

/// An optional array that goes with the tokens, one for one.
template <typename T>
Status check_length(const GgufFile& file, std::string_view key, const std::vector<T>& values,
                    std::size_t tokens) {
  if (values.size() == tokens) return {};
  return fail(ErrorCode::kDataLoss, "{}: metadata {}: has {} elements, expected one of each of {}",
              file.name(), in_quotes(key), values.size(), tokens);
}

Status read_pieces(const GgufFile& file, Vocabulary& vocabulary) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  PACELINE_ASSIGN_OR_RETURN(vocabulary.tokens, file.string_array("tokenizer.ggml.tokens"));
  const std::size_t count = vocabulary.tokens.size();
  if (file.has(kScores)) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.scores, file.float_array(kScores));
    PACELINE_RETURN_IF_ERROR(check_length(file, kScores, vocabulary.scores, count));
  }
  if (file.has(kTypes)) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.token_types, file.int_array(kTypes));
    PACELINE_RETURN_IF_ERROR(check_length(file, kTypes, vocabulary.token_types, count));
  }
  if (file.has(kMerges)) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.merges, file.string_array(kMerges));
  }
  return {};
}

Status read_special_ids(const GgufFile& file, Vocabulary& vocabulary) {
  const std::uint64_t count = vocabulary.tokens.size();
  const auto read = [&](std::string_view key, std::int64_t& id) -> Status {
    PACELINE_ASSIGN_OR_RETURN(id, token_id(file, key, count));
    return {};
  };
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.bos_token_id", vocabulary.bos_id));
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.eos_token_id", vocabulary.eos_id));
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.unknown_token_id", vocabulary.unknown_id));
  return read("tokenizer.ggml.padding_token_id", vocabulary.padding_id);
}

Status read_switches(const GgufFile& file, Vocabulary& vocabulary) {
  const auto read = [&](std::string_view key, auto& value) -> Status {
    if (!file.has(key)) return {};
    PACELINE_ASSIGN_OR_RETURN(value, file.bool_value(key));
    return {};
  };
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.add_bos_token", vocabulary.add_bos));
  PACELINE_RETURN_IF_ERROR(read("tokenizer.ggml.add_eos_token", vocabulary.add_eos));
  return read("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
}

}  // namespace

Result<DecoderConfig> GgufFile::decoder_config() const {
  DecoderConfig config;
  PACELINE_ASSIGN_OR_RETURN(config.architecture, string_value("general.architecture"));
  if (config.architecture != "llama") {
    return fail(ErrorCode::kUnimplemented,
                "{}: metadata \"general.architecture\": is {}, expected llama", name_,
                in_quotes(config.architecture));
  }
  if (has("general.name")) {
    PACELINE_ASSIGN_OR_RETURN(config.name, string_value("general.name"));
  }
  const Keys keys(*this, config.architecture + ".");
  PACELINE_RETURN_IF_ERROR(refuse_experts(*this, keys));
  PACELINE_RETURN_IF_ERROR(read_sizes(keys, config));
  PACELINE_RETURN_IF_ERROR(read_head_size(*this, keys, config));
  PACELINE_RETURN_IF_ERROR(read_rope(*this, keys, config));
  PACELINE_RETURN_IF_ERROR(read_tokens(*this, config));
  return config;
}

Result<Vocabulary> GgufFile::vocabulary() const {
  Vocabulary vocabulary;
  if (has("general.architecture")) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.architecture, string_value("general.architecture"));
  }
  PACELINE_ASSIGN_OR_RETURN(vocabulary.model, string_value("tokenizer.ggml.model"));
  if (has("tokenizer.ggml.pre")) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.pre, string_value("tokenizer.ggml.pre"));
  }
  if (has("tokenizer.chat_template")) {
    PACELINE_ASSIGN_OR_RETURN(vocabulary.chat_template, string_value("tokenizer.chat_template"));
  }
  PACELINE_RETURN_IF_ERROR(read_pieces(*this, vocabulary));
  PACELINE_RETURN_IF_ERROR(read_special_ids(*this, vocabulary));
  PACELINE_RETURN_IF_ERROR(read_switches(*this, vocabulary));
  return vocabulary;
}

}  // namespace paceline::model
