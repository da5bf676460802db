#include "compiler/golden_gguf_testing.h"

#include <cstring>
#include <map>
#include <regex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "compiler/memory_source_testing.h"

namespace paceline::compiler {
namespace {

using model::DecoderConfig;
using model::TensorInfo;
using model::TensorType;

/// Written apart from the product's table.
const std::vector<std::pair<const char*, const char*>> kRenamed = {
    {R"(^model\.embed_tokens\.)", "token_embd."},
    {R"(^model\.norm\.)", "output_norm."},
    {R"(^lm_head\.)", "output."},
    {R"(^model\.layers\.)", "blk."},
    {R"(\.input_layernorm\.)", ".attn_norm."},
    {R"(\.self_attn\.([qkv])_proj\.)", ".attn_$1."},
    {R"(\.self_attn\.qkv_proj\.)", ".attn_qkv."},
    {R"(\.self_attn\.o_proj\.)", ".attn_output."},
    {R"(\.self_attn\.([qk])_norm\.)", ".attn_$1_norm."},
    {R"(\.pre_feedforward_layernorm\.)", ".ffn_norm."},
    {R"(\.post_feedforward_layernorm\.)", ".post_ffw_norm."},
    {R"(\.mlp\.(gate|up|down)_proj\.)", ".ffn_$1."},
    {R"(\.mlp\.gate_up_proj\.)", ".ffn_up."},
    {R"(\.(block_sparse_moe|mlp)\.gate\.)", ".ffn_gate_inp."},
    {R"(\.block_sparse_moe\.experts\.\d+\.w1\.)", ".ffn_gate_exps."},
    {R"(\.block_sparse_moe\.experts\.\d+\.w2\.)", ".ffn_down_exps."},
    {R"(\.block_sparse_moe\.experts\.\d+\.w3\.)", ".ffn_up_exps."},
    {R"(\.mlp\.experts\.\d+\.(gate|up|down)_proj\.)", ".ffn_$1_exps."},
};

std::string gguf_name(std::string name, const DecoderConfig& config) {
  const bool is_before = config.norms == model::NormPlacement::kBefore;
  const char* after = is_before ? ".ffn_norm." : ".post_attention_norm.";
  name = std::regex_replace(name, std::regex(R"(\.post_attention_layernorm\.)"), after);
  for (const auto& [from, to] : kRenamed) name = std::regex_replace(name, std::regex(from), to);
  return name;
}

/// Row r of each head's first half goes to row 2r, of the second half to 2r + 1.
std::string interleaved(const std::string& bytes, std::size_t row_bytes,
                        const DecoderConfig& config) {
  std::string result = bytes;
  const std::size_t half = config.head_size / 2;
  for (std::size_t row = 0; row < bytes.size() / row_bytes; ++row) {
    const std::size_t inner = row % config.head_size;
    const std::size_t to = row - inner + (inner < half ? 2 * inner : 2 * (inner - half) + 1);
    std::memcpy(result.data() + to * row_bytes, bytes.data() + row * row_bytes, row_bytes);
  }
  return result;
}

std::string with_offset(std::string bytes, float offset) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    float value = 0.0F;
    std::memcpy(&value, bytes.data() + i, sizeof(value));
    value += offset;
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
  return bytes;
}

struct Stored {
  std::vector<std::uint64_t> shape;
  std::string bytes;
  std::uint64_t count = 0;  ///< of tensors that were put together
};

}  // namespace

std::unique_ptr<model::TensorSource> gguf_tensors(const std::string& name) {
  const DecoderConfig config = golden_config(name);
  const auto drawn = draw_tensors(name);
  std::map<std::string, Stored> all;
  std::map<std::uint64_t, std::map<std::string, const TensorInfo*>> in_order;
  const std::regex number(R"(experts\.(\d+)\.)");
  for (const TensorInfo& tensor : drawn->tensors()) {  // expert 10 comes after expert 9
    std::smatch match;
    const bool is_expert = std::regex_search(tensor.name, match, number);
    in_order[is_expert ? std::stoull(match[1]) : 0][tensor.name] = &tensor;
  }
  for (const auto& [expert, tensors] : in_order) {
    for (const auto& [from, tensor] : tensors) {
      std::string bytes(tensor->size_bytes, '\0');
      PACELINE_CHECK(drawn->read(*tensor, 0, std::as_writable_bytes(std::span(bytes))).has_value());
      const bool is_turned = std::regex_search(from, std::regex(R"(\.[qk]_proj\.)"));
      if (is_turned && gguf_config(name).interleaved_rope_rows) {
        bytes = interleaved(bytes, bytes.size() / tensor->shape[0], config);
      }
      if (from.find("norm") != std::string::npos) {
        bytes = with_offset(bytes, config.norm_weight_offset);
      }
      Stored& stored = all[gguf_name(from, config)];
      stored.shape = tensor->shape;
      stored.bytes += bytes;
      if (from.find(".experts.") != std::string::npos) ++stored.count;
    }
  }
  auto source = std::make_unique<MemorySource>();
  for (auto& [to, stored] : all) {
    if (stored.count > 0) stored.shape.insert(stored.shape.begin(), stored.count);
    source->add(to, TensorType::kF32, stored.shape, std::move(stored.bytes));
  }
  return source;
}

DecoderConfig gguf_config(const std::string& name) {
  DecoderConfig config = golden_config(name);
  config.norm_weight_offset = 0.0F;
  for (const char* start : {"llama", "mistral", "mixtral", "granite", "smollm3"}) {
    if (name.starts_with(start)) config.interleaved_rope_rows = true;
  }
  return config;
}

}  // namespace paceline::compiler
