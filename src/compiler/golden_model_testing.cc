#include "compiler/golden_model_testing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "compiler/builder.h"
#include "compiler/ir_xml.h"
#include "compiler/memory_source_testing.h"
#include "compiler/weight_binder.h"
#include "model/half.h"
#include "model/hf_config.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using model::TensorType;
using nlohmann::json;

constexpr std::uint64_t kFileLimit = 16U << 20;

fs::path root() { return fs::path(PACELINE_SOURCE_DIR) / "tests/golden/architectures"; }

std::string text_of(const fs::path& path) {
  auto text = system::read_text_file(path, kFileLimit);
  PACELINE_CHECK(text.has_value());
  return *text;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  return value;
}

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::string stored(float value, TensorType type) {
  if (type == TensorType::kF32) return {reinterpret_cast<const char*>(&value), sizeof(value)};
  const std::uint16_t bits =
      type == TensorType::kF16 ? model::float_to_half(value) : model::float_to_bfloat(value);
  return {reinterpret_cast<const char*>(&bits), sizeof(bits)};
}

/// Any finite number in F8_E4M3: seven bits of it from the low half, the sign from the high one.
char drawn_fp8(std::uint64_t drawn) {
  return static_cast<char>(drawn % 127 + 128 * ((drawn >> 32U) % 2));
}

using Rows = std::vector<std::vector<std::int64_t>>;

ov::Tensor matrix(const Rows& rows) {
  ov::Tensor tensor(ov::element::i64, {rows.size(), rows[0].size()});
  auto* to = tensor.data<std::int64_t>();
  for (const auto& row : rows) to = std::copy(row.begin(), row.end(), to);
  return tensor;
}

Rows columns(const Rows& rows, std::size_t begin, std::size_t end) {
  Rows result;
  for (const auto& row : rows) {
    result.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(begin),
                        row.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

}  // namespace

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path golden_directory(const std::string& name) { return root() / name; }

GoldenModel read_golden(const std::string& name) {
  const json text = json::parse(text_of(root() / name / "golden.json"));
  GoldenModel golden;
  golden.name = name;
  golden.ids = text["input_ids"].get<Rows>();
  golden.padding = text["padding"];
  golden.prefills = text["prefills"].get<std::vector<std::size_t>>();
  golden.greedy = text["greedy"].get<Rows>();
  golden.vocabulary = text["vocabulary"];
  const std::string bytes = text_of(root() / name / "logits.bin");
  const std::size_t count = 2 * golden.tokens() * golden.vocabulary;
  PACELINE_CHECK(bytes.size() == golden.prefills.size() * count * sizeof(float));
  for (std::size_t run = 0; run < golden.prefills.size(); ++run) {
    auto& logits = golden.logits.emplace_back(count);
    std::memcpy(logits.data(), bytes.data() + run * count * sizeof(float), count * sizeof(float));
  }
  return golden;
}

model::DecoderConfig golden_config(const std::string& name) {
  auto config = model::read_hf_config(golden_directory(name));
  if (!config) std::fprintf(stderr, "%s\n", config.error().message().c_str());
  PACELINE_CHECK(config.has_value());
  return *config;
}

std::unique_ptr<model::TensorSource> draw_tensors(const std::string& name, TensorType type) {
  const json entries = json::parse(text_of(root() / name / "tensors.json"));
  auto source = std::make_unique<MemorySource>();
  for (const json& entry : entries) {
    const auto name_in_file = entry[0].get<std::string>();
    const auto shape = entry[1].get<std::vector<std::uint64_t>>();
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    const bool is_fp8 = entry[2] == "F8_E4M3";
    const bool is_scale = name_in_file.find("_scale") != std::string::npos;
    const TensorType own = is_fp8 ? TensorType::kF8_E4M3 : is_scale ? TensorType::kF32 : type;
    const std::uint64_t seed = fnv1a(name_in_file);
    std::string bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t drawn = splitmix64(seed + i);
      if (is_fp8) {
        bytes += drawn_fp8(drawn);
        continue;
      }
      const auto k = static_cast<float>(static_cast<int>(drawn % 127) - 63);
      bytes += stored(entry[2].get<float>() + entry[3].get<float>() * k, own);
    }
    source->add(name_in_file, own, shape, std::move(bytes));
  }
  return source;
}

GoldenWeights::GoldenWeights(const model::TensorSource& source, const TensorPlan& plan,
                             const fs::path& bin, const WriteOptions& options)
    : bin_(BinFile::create(bin).value()) {
  NoProgress progress;
  weights_ = write_weights(source, plan, bin_, progress, options).value();
}

/// Small constants go to the end of the .bin; those of earlier graphs stay there.
std::shared_ptr<ov::Model> GoldenWeights::graph(const model::DecoderConfig& config,
                                                ov::Core& core) {
  WeightBinder binder(weights_);
  const auto model = build_decoder(config, binder).value();
  fs::path xml = bin_.path();
  xml.replace_extension(".xml");
  PACELINE_CHECK(write_ir_xml(model, binder.offsets(), bin_, xml).has_value());
  return core.read_model(xml.string(), bin_.path().string());
}

ov::AnyMap exact_properties() {
  return {ov::hint::inference_precision(ov::element::f32),
          ov::hint::dynamic_quantization_group_size(0),
          ov::hint::kv_cache_precision(ov::element::f32), ov::inference_num_threads(1)};
}

GoldenRun::GoldenRun(ov::InferRequest request, std::size_t padding)
    : request_(std::move(request)), padding_(padding) {
  ov::Tensor beams(ov::element::i32, {2});
  beams.data<std::int32_t>()[0] = 0;
  beams.data<std::int32_t>()[1] = 1;
  request_.set_tensor("beam_idx", beams);
  request_.reset_state();
}

std::vector<float> GoldenRun::feed(const Rows& ids) {
  const std::size_t end = past_ + ids[0].size();
  Rows mask(2, std::vector<std::int64_t>(end, 1));
  Rows positions(2);
  std::fill_n(mask[1].begin(), std::min(padding_, end), 0);
  for (std::size_t row = 0; row < 2; ++row) {
    const std::size_t missing = row == 0 ? 0 : padding_;
    for (std::size_t i = past_; i < end; ++i) {
      positions[row].push_back(i < missing ? 1 : static_cast<std::int64_t>(i - missing));
    }
  }
  request_.set_tensor("input_ids", matrix(ids));
  request_.set_tensor("attention_mask", matrix(mask));
  request_.set_tensor("position_ids", matrix(positions));
  request_.infer();
  past_ = end;
  const ov::Tensor logits = request_.get_tensor("logits");
  return {logits.data<float>(), logits.data<float>() + logits.get_size()};
}

std::vector<float> run_golden(const ov::InferRequest& request, const GoldenModel& golden,
                              std::size_t prefill) {
  const std::size_t row_size = golden.tokens() * golden.vocabulary;
  std::vector<float> all(2 * row_size);
  GoldenRun run(request, golden.padding);
  for (std::size_t begin = 0; begin < golden.tokens();) {
    const std::size_t end = begin == 0 ? prefill : begin + 1;
    const std::vector<float> part = run.feed(columns(golden.ids, begin, end));
    const std::size_t count = (end - begin) * golden.vocabulary;
    for (std::size_t row = 0; row < 2; ++row) {
      std::copy_n(part.data() + row * count, count,
                  all.data() + row * row_size + begin * golden.vocabulary);
    }
    begin = end;
  }
  return all;
}

double golden_difference(const GoldenModel& golden, const std::vector<float>& actual,
                         const std::vector<float>& expected) {
  PACELINE_CHECK(actual.size() == expected.size());
  const std::size_t second = golden.tokens() * golden.vocabulary;
  const std::size_t second_end = second + golden.padding * golden.vocabulary;
  double sum = 0;
  double squares = 0;
  double largest = 0;
  double count = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i >= second && i < second_end) continue;
    const double value = expected[i];
    sum += value;
    squares += value * value;
    count += 1;
    const double difference = std::abs(actual[i] - value);
    largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
  }
  return largest / std::sqrt(squares / count - sum / count * (sum / count));
}

}  // namespace paceline::compiler
