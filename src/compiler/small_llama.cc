#include "compiler/small_llama.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/check.h"
#include "model/dequantize.h"
#include "model/half.h"
#include "model/quantized_block.h"

namespace paceline::compiler {
namespace {

using model::GgufTestWriter;
using model::TensorType;
using Matrix = std::vector<double>;  ///< row-major

std::string half_bytes(float value) { return GgufTestWriter::raw(model::float_to_half(value)); }

/// One block: scales that suit the magnitude, all else random bits.
std::string random_block(TensorType type, float magnitude, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(0.7F, 1.3F);
  const float scale = magnitude * uniform(random);
  std::string block(model::block_bytes(type), '\0');
  for (char& byte : block) byte = static_cast<char>(random());
  const auto put = [&](std::size_t at, float value) { block.replace(at, 2, half_bytes(value)); };
  switch (type) {
    case TensorType::kQ8_0:
    case TensorType::kIQ4_NL:
      put(0, scale / 127);
      break;
    case TensorType::kQ4_0:
      put(0, scale / 8);
      break;
    case TensorType::kQ5_0:
      put(0, scale / 16);
      break;
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
      put(0, scale / (type == TensorType::kQ4_1 ? 8.0F : 16.0F));
      put(2, -scale * uniform(random));
      break;
    case TensorType::kQ2_K:
      put(80, scale / 2 / 8), put(82, scale / 16);
      break;
    case TensorType::kQ3_K:
      put(108, scale / 4 / 16);
      break;
    case TensorType::kQ4_K:
      put(0, scale / 8 / 32), put(2, scale / 32);
      break;
    case TensorType::kQ5_K:
      put(0, scale / 16 / 32), put(2, scale / 32);
      break;
    case TensorType::kQ6_K:
      put(208, scale / 32 / 64);
      break;
    case TensorType::kIQ4_XS:
      put(0, scale / 127 / 16);
      break;
    default:
      PACELINE_CHECK(false);
  }
  return block;
}

std::string plain_value(TensorType type, float value) {
  if (type == TensorType::kF16) return half_bytes(value);
  if (type == TensorType::kF32) return GgufTestWriter::raw(value);
  return GgufTestWriter::raw(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
}

Matrix values_of(const model::GgufFile& file, const std::string& name) {
  const model::TensorInfo& tensor = *file.find(name).value();
  std::vector<std::byte> bytes(tensor.size_bytes);
  PACELINE_CHECK(file.read(tensor, 0, bytes).has_value());
  std::vector<float> values(tensor.size_bytes / model::block_bytes(tensor.type) *
                            model::block_elements(tensor.type));
  model::dequantize(tensor.type, bytes, values);
  return {values.begin(), values.end()};
}

/// x [tokens, columns] times the transpose of w [rows, columns].
Matrix multiply(const Matrix& x, const Matrix& w, std::size_t columns) {
  const std::size_t tokens = x.size() / columns;
  const std::size_t rows = w.size() / columns;
  Matrix result(tokens * rows);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) sum += x[t * columns + c] * w[r * columns + c];
      result[t * rows + r] = sum;
    }
  }
  return result;
}

Matrix normalize(Matrix x, const Matrix& weight, double epsilon) {
  const std::size_t width = weight.size();
  for (std::size_t begin = 0; begin < x.size(); begin += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[begin + i] * x[begin + i];
    const double root = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i) x[begin + i] *= weight[i] / root;
  }
  return x;
}

void turn(Matrix& x, std::size_t heads, const model::DecoderConfig& config,
          const Matrix& divisors) {
  const std::size_t width = heads * config.head_size;
  for (std::size_t begin = 0; begin < x.size(); begin += config.head_size) {
    const std::size_t token = begin / width;
    const double position = static_cast<double>(token) / config.ropes[0].factor;
    for (std::size_t i = 0; i < config.rope_dimensions / 2; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / config.rope_dimensions;
      const double divisor = divisors.empty() ? 1.0 : divisors[i];
      const double angle = position * std::pow(config.ropes[0].theta, exponent) / divisor;
      double& a = x[begin + 2 * i];
      double& b = x[begin + 2 * i + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

/// Rows of one head: row t begins at data[t * stride].
struct Rows {
  const double* data;
  std::size_t stride;
  double at(std::size_t t, std::size_t i) const { return data[t * stride + i]; }
};

/// Causal attention of the query row `token` over the rows of k and v up to its own.
std::vector<double> attend(std::size_t token, std::size_t size, Rows q, Rows k, Rows v) {
  std::vector<double> weights(token + 1);
  std::vector<double> result(size);
  double total = 0;
  for (std::size_t t = 0; t <= token; ++t) {
    double dot = 0;
    for (std::size_t i = 0; i < size; ++i) dot += q.at(token, i) * k.at(t, i);
    weights[t] = std::exp(dot / std::sqrt(static_cast<double>(size)));
    total += weights[t];
  }
  for (std::size_t t = 0; t <= token; ++t) {
    for (std::size_t i = 0; i < size; ++i) result[i] += weights[t] / total * v.at(t, i);
  }
  return result;
}

Matrix attention(const Matrix& x, const model::GgufFile& file, const model::DecoderConfig& config,
                 const std::string& block) {
  const std::size_t size = config.head_size;
  const std::size_t q_width = config.attention_heads * size;
  const std::size_t kv_width = config.key_value_heads * size;
  const Matrix divisors =
      file.find("rope_freqs.weight") ? values_of(file, "rope_freqs.weight") : Matrix();
  Matrix q = multiply(x, values_of(file, block + "attn_q.weight"), config.hidden_size);
  Matrix k = multiply(x, values_of(file, block + "attn_k.weight"), config.hidden_size);
  const Matrix v = multiply(x, values_of(file, block + "attn_v.weight"), config.hidden_size);
  turn(q, config.attention_heads, config, divisors);
  turn(k, config.key_value_heads, config, divisors);
  Matrix result;
  const std::size_t sharing = config.attention_heads / config.key_value_heads;
  for (std::size_t t = 0; t < q.size() / q_width; ++t) {
    for (std::size_t head = 0; head < config.attention_heads; ++head) {
      const std::size_t shared = head / sharing * size;
      const auto row = attend(t, size, {&q[head * size], q_width}, {&k[shared], kv_width},
                              {&v[shared], kv_width});
      result.insert(result.end(), row.begin(), row.end());
    }
  }
  return multiply(result, values_of(file, block + "attn_output.weight"), q_width);
}

Matrix feed_forward(const Matrix& x, const model::GgufFile& file,
                    const model::DecoderConfig& config, const std::string& block) {
  Matrix gate = multiply(x, values_of(file, block + "ffn_gate.weight"), config.hidden_size);
  const Matrix up = multiply(x, values_of(file, block + "ffn_up.weight"), config.hidden_size);
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
  return multiply(gate, values_of(file, block + "ffn_down.weight"), config.intermediate_size);
}

void add(Matrix& x, const Matrix& y) {
  std::transform(x.begin(), x.end(), y.begin(), x.begin(), std::plus<>());
}

void add_tensors(GgufTestWriter& writer, const SmallLlama& options) {
  std::uint32_t seed = 1;
  const auto matrix = [&](const std::string& name, TensorType type, std::uint64_t rows,
                          std::uint64_t columns) {
    const float magnitude = 2.0F / std::sqrt(static_cast<float>(columns));
    writer.add({name + ".weight",
                {rows, columns},
                ggml_number(type),
                random_blocks(type, rows * columns, magnitude, seed++)});
  };
  const auto norm = [&](const std::string& name) {
    std::string bytes = random_blocks(TensorType::kF32, options.hidden, 1.0F, seed++);
    writer.add({name + ".weight", {options.hidden}, 0, bytes});
  };
  const std::uint64_t queries = std::uint64_t{options.heads} * options.head_size;
  const std::uint64_t keys = std::uint64_t{options.kv_heads} * options.head_size;
  matrix("token_embd", options.table_type, options.vocabulary, options.hidden);
  for (std::uint32_t i = 0; i < options.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    norm(block + "attn_norm");
    matrix(block + "ffn_down", options.type, options.hidden, options.inner);
    matrix(block + "ffn_gate", options.type, options.inner, options.hidden);
    matrix(block + "ffn_up", options.type, options.inner, options.hidden);
    norm(block + "ffn_norm");
    matrix(block + "attn_k", options.type, keys, options.hidden);
    matrix(block + "attn_output", options.type, options.hidden, queries);
    matrix(block + "attn_q", options.type, queries, options.hidden);
    matrix(block + "attn_v", options.type, keys, options.hidden);
  }
  norm("output_norm");
  if (!options.tied) matrix("output", options.table_type, options.vocabulary, options.hidden);
}

}  // namespace

std::uint32_t ggml_number(TensorType type) {
  static const std::map<TensorType, std::uint32_t> kNumbers = {
      {TensorType::kF32, 0},     {TensorType::kF16, 1},     {TensorType::kQ4_0, 2},
      {TensorType::kQ4_1, 3},    {TensorType::kQ5_0, 6},    {TensorType::kQ5_1, 7},
      {TensorType::kQ8_0, 8},    {TensorType::kQ2_K, 10},   {TensorType::kQ3_K, 11},
      {TensorType::kQ4_K, 12},   {TensorType::kQ5_K, 13},   {TensorType::kQ6_K, 14},
      {TensorType::kIQ4_NL, 20}, {TensorType::kIQ4_XS, 23}, {TensorType::kBF16, 30}};
  return kNumbers.at(type);
}

std::string random_blocks(TensorType type, std::uint64_t elements, float magnitude,
                          std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-magnitude, magnitude);
  std::string bytes;
  for (std::uint64_t i = 0; i < elements / model::block_elements(type); ++i) {
    bytes += model::is_quantized(type) ? random_block(type, magnitude, random)
                                       : plain_value(type, uniform(random));
  }
  return bytes;
}

GgufTestWriter write_small_llama(const SmallLlama& options) {
  GgufTestWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("llama.block_count", options.layers);
  writer.set_u32("llama.embedding_length", options.hidden);
  writer.set_u32("llama.feed_forward_length", options.inner);
  writer.set_u32("llama.context_length", 512);
  writer.set_u32("llama.attention.head_count", options.heads);
  writer.set_u32("llama.attention.head_count_kv", options.kv_heads);
  writer.set_u32("llama.attention.key_length", options.head_size);
  writer.set_u32("llama.attention.value_length", options.head_size);
  writer.set_u32("llama.rope.dimension_count", options.rotary);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.set_u32("tokenizer.ggml.bos_token_id", 1).set_u32("tokenizer.ggml.eos_token_id", 2);
  if (options.rope_linear_factor != 1.0F) {
    writer.set_string("llama.rope.scaling.type", "linear");
    writer.set_f32("llama.rope.scaling.factor", options.rope_linear_factor);
  }
  if (options.rope_divisors) {
    std::string bytes;
    for (std::uint32_t i = 0; i < options.rotary / 2; ++i) {
      bytes += GgufTestWriter::raw(1.0F + static_cast<float>(i) / 8);
    }
    writer.add({"rope_freqs.weight", {options.rotary / 2}, 0, bytes});
  }
  add_tensors(writer, options);
  return writer;
}

std::unique_ptr<model::GgufFile> open_small_llama(const SmallLlama& options) {
  auto file = model::GgufFile::from_memory("small.gguf", write_small_llama(options).finish());
  PACELINE_CHECK(file.has_value());
  return std::move(*file);
}

std::vector<double> reference_logits(const model::GgufFile& file,
                                     const model::DecoderConfig& config,
                                     const std::vector<std::int64_t>& tokens) {
  const std::size_t hidden = config.hidden_size;
  const double epsilon = config.rms_norm_epsilon;
  const Matrix table = values_of(file, "token_embd.weight");
  Matrix x;
  for (const std::int64_t token : tokens) {
    const auto row = table.begin() + static_cast<std::ptrdiff_t>(token) * config.hidden_size;
    x.insert(x.end(), row, row + config.hidden_size);
  }
  for (std::uint32_t i = 0; i < config.layers.size(); ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    const Matrix first = normalize(x, values_of(file, block + "attn_norm.weight"), epsilon);
    add(x, attention(first, file, config, block));
    const Matrix second = normalize(x, values_of(file, block + "ffn_norm.weight"), epsilon);
    add(x, feed_forward(second, file, config, block));
  }
  x = normalize(x, values_of(file, "output_norm.weight"), epsilon);
  return multiply(x, config.tied_head ? table : values_of(file, "output.weight"), hidden);
}

}  // namespace paceline::compiler
