// Small models from GGUF to logits, against their definition.
#include "compiler/ir_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include <openvino/op/read_value.hpp>
#include <openvino/openvino.hpp>
#include <openvino/pass/manager.hpp>
#include <openvino/pass/sdpa_to_paged_attention.hpp>

#include "compiler/small_llama.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using model::TensorType;

class IrDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("paceline-ir-{}", ::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  void build(const model::GgufFile& file) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    NoProgress progress;
    const auto built =
        build_ir_directory(file, file.decoder_config().value(), directory_, progress);
    ASSERT_TRUE(built) << built.error().message();
  }
  std::string text(const char* name) const {
    return system::read_text_file(directory_ / name, 16U << 20).value();
  }
  std::shared_ptr<ov::Model> read() const {
    return core_.read_model(directory_ / "openvino_model.xml");
  }
  ov::InferRequest request() const {
    return core_
        .compile_model(read(), "CPU", ov::hint::inference_precision(ov::element::f32),
                       ov::hint::dynamic_quantization_group_size(0),
                       ov::hint::kv_cache_precision(ov::element::f32))
        .create_infer_request();
  }

  mutable ov::Core core_;
  fs::path directory_;
};

ov::Tensor integers(const std::vector<std::int64_t>& values) {
  ov::Tensor tensor(ov::element::i64, {1, values.size()});
  std::copy(values.begin(), values.end(), tensor.data<std::int64_t>());
  return tensor;
}

/// Logits of the new tokens, after `past` others.
std::vector<float> infer(ov::InferRequest& request, const std::vector<std::int64_t>& tokens,
                         std::size_t past) {
  std::vector<std::int64_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<std::int64_t>(past));
  ov::Tensor beam(ov::element::i32, {1});
  beam.data<std::int32_t>()[0] = 0;
  request.set_tensor("input_ids", integers(tokens));
  request.set_tensor("attention_mask",
                     integers(std::vector<std::int64_t>(past + tokens.size(), 1)));
  request.set_tensor("position_ids", integers(positions));
  request.set_tensor("beam_idx", beam);
  request.infer();
  const ov::Tensor logits = request.get_tensor("logits");
  return {logits.data<float>(), logits.data<float>() + logits.get_size()};
}

/// The largest difference, relative to the standard deviation of the expected logits.
double difference(const std::vector<float>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double squares = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += expected[i] * expected[i];
    largest = std::max(largest, std::abs(actual[i] - expected[i]));
  }
  return largest / std::sqrt(squares / static_cast<double>(expected.size()));
}

const std::vector<std::int64_t> kTokens = {1, 17, 5, 40, 40, 3, 22, 9, 31, 0, 47, 12};

struct Case {
  const char* name;
  SmallLlama options;
  double bound;
};

TEST_F(IrDirectoryTest, LogitsAreThoseOfTheDefinition) {
  const Case kCases[] = {
      {"plain", {}, 1e-5},
      {"own head", {.tied = false}, 1e-5},
      {"one key head", {.kv_heads = 1}, 1e-5},
      {"no sharing", {.kv_heads = 4}, 1e-5},
      {"part of a head turns", {.rotary = 32}, 1e-5},
      {"other head size", {.heads = 8, .kv_heads = 2, .head_size = 16, .rotary = 16}, 1e-5},
      {"scaled frequencies", {.rope_divisors = true}, 1e-5},
      {"scaled positions", {.rope_linear_factor = 4.0F}, 1e-5},
      {"F16", {.type = TensorType::kF16, .table_type = TensorType::kF16}, 1e-5},
      {"BF16", {.type = TensorType::kBF16, .table_type = TensorType::kBF16}, 1e-5},
      {"Q8_0", {.type = TensorType::kQ8_0, .table_type = TensorType::kQ8_0}, 1e-5},
      {"Q4_0", {.type = TensorType::kQ4_0, .table_type = TensorType::kQ4_0}, 1e-5},
      {"Q4_1", {.type = TensorType::kQ4_1, .table_type = TensorType::kQ4_1}, 1e-2},
      {"Q4_K", {.type = TensorType::kQ4_K, .table_type = TensorType::kQ4_K}, 2e-2},
      {"Q6_K", {.type = TensorType::kQ6_K, .table_type = TensorType::kQ6_K}, 1e-2},
      {"mixed", {.type = TensorType::kQ4_K, .table_type = TensorType::kQ6_K, .tied = false}, 2e-2},
  };
  for (const Case& test : kCases) {
    const auto file = open_small_llama(test.options);
    build(*file);
    const auto expected = reference_logits(*file, file->decoder_config().value(), kTokens);
    ov::InferRequest whole = request();
    const double found = difference(infer(whole, kTokens, 0), expected);
    EXPECT_LT(found, test.bound) << test.name;
  }
}

TEST_F(IrDirectoryTest, TheStatesCarryOnWhatCameBefore) {
  build(*open_small_llama({}));
  ov::InferRequest request = this->request();
  const std::vector<float> whole = infer(request, kTokens, 0);
  request.reset_state();
  std::vector<double> parts;
  for (const auto& [begin, end] : {std::pair(0, 5), std::pair(5, 6), std::pair(6, 12)}) {
    const std::vector<std::int64_t> chunk(kTokens.begin() + begin, kTokens.begin() + end);
    const auto logits = infer(request, chunk, static_cast<std::size_t>(begin));
    parts.insert(parts.end(), logits.begin(), logits.end());
  }
  EXPECT_LT(difference(whole, parts), 1e-4);
}

TEST_F(IrDirectoryTest, PaddingOnTheLeftChangesNothing) {
  build(*open_small_llama({}));
  ov::InferRequest request = this->request();
  const std::vector<float> alone = infer(request, kTokens, 0);
  request.reset_state();
  const std::size_t padding = 3;
  std::vector<std::int64_t> tokens(padding, 0);
  std::vector<std::int64_t> mask(padding, 0);
  std::vector<std::int64_t> positions(padding, 1);
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    tokens.push_back(kTokens[i]);
    mask.push_back(1);
    positions.push_back(static_cast<std::int64_t>(i));
  }
  request.set_tensor("input_ids", integers(tokens));
  request.set_tensor("attention_mask", integers(mask));
  request.set_tensor("position_ids", integers(positions));
  request.infer();
  const ov::Tensor logits = request.get_tensor("logits");
  const float* begin = logits.data<float>();
  for (std::size_t i = 0; i < logits.get_size(); ++i) ASSERT_TRUE(std::isfinite(begin[i]));
  const std::vector<double> padded(begin + padding * 48, begin + logits.get_size());
  EXPECT_LT(difference(alone, padded), 1e-4);
}

TEST_F(IrDirectoryTest, TheSameSourceGivesTheSameBytes) {
  build(*open_small_llama({.type = TensorType::kQ4_K}));
  const std::string xml = text("openvino_model.xml");
  const std::string bin = text("openvino_model.bin");
  build(*open_small_llama({.type = TensorType::kQ4_K}));
  EXPECT_TRUE(xml == text("openvino_model.xml"));
  EXPECT_TRUE(bin == text("openvino_model.bin"));
}

TEST_F(IrDirectoryTest, StatesAreNamedAndTheGraphBecomesPagedAttention) {
  build(*open_small_llama({}));
  const auto model = read();
  std::vector<std::string> names;
  for (const auto& variable : model->get_variables())
    names.push_back(variable->get_info().variable_id);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "past_key_values.0.keypresent.0.key", "past_key_values.0.valuepresent.0.value",
                "past_key_values.1.keypresent.1.key", "past_key_values.1.valuepresent.1.value"}));
  ov::pass::Manager manager;
  manager.register_pass<ov::pass::SDPAToPagedAttention>();
  ASSERT_TRUE(manager.run_passes(model));
  EXPECT_TRUE(model->get_sinks().empty());
  for (const char* name : {"input_ids", "position_ids", "past_lens", "block_indices", "key_cache.0",
                           "value_cache.1"}) {
    EXPECT_NO_THROW(model->input(name)) << name;
  }
  EXPECT_THROW(model->input("attention_mask"), ov::Exception);
  for (const auto& node : model->get_ordered_ops()) {
    EXPECT_FALSE(ov::is_type<ov::op::util::ReadValueBase>(node));
  }
  EXPECT_NO_THROW(core_.compile_model(model, "CPU"));
}

TEST_F(IrDirectoryTest, ConfigurationsAreHuggingFaces) {
  auto writer = write_small_llama({.tied = false});
  writer.set_u32("tokenizer.ggml.eot_token_id", 7).set_u32("tokenizer.ggml.padding_token_id", 0);
  build(*model::GgufFile::from_memory("f", writer.finish()).value());
  const auto config = nlohmann::json::parse(text("config.json"));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["hidden_size"], 256);
  EXPECT_EQ(config["num_hidden_layers"], 2);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["head_dim"], 64);
  EXPECT_EQ(config["vocab_size"], 48);
  EXPECT_EQ(config["tie_word_embeddings"], false);
  const auto generation = nlohmann::json::parse(text("generation_config.json"));
  EXPECT_EQ(generation["eos_token_id"], (std::vector<int>{2, 7}));
  EXPECT_EQ(generation["bos_token_id"], 1);
  EXPECT_EQ(generation["pad_token_id"], 0);
  build(*open_small_llama({}));
  EXPECT_EQ(nlohmann::json::parse(text("generation_config.json"))["eos_token_id"], 2);
}

TEST_F(IrDirectoryTest, ErrorsOfTheSourceAndOfTheTargetAreSaid) {
  NoProgress progress;
  auto writer = write_small_llama({});
  writer.tensors().pop_back();
  const auto file = model::GgufFile::from_memory("short.gguf", writer.finish()).value();
  const auto config = file->decoder_config().value();
  const auto missing = build_ir_directory(*file, config, directory_, progress);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message(), "short.gguf: tensor \"output_norm.weight\": is missing");
  const auto whole = open_small_llama({});
  const auto nowhere = build_ir_directory(*whole, config, directory_ / "none", progress);
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message().find("none/openvino_model.bin: cannot create"),
            std::string::npos);
}

}  // namespace
}  // namespace paceline::compiler
