// The forms of the weights in a graph: what the CPU plugin makes of them, and that they mean what
// was written.
#include "compiler/weight_binder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>

#include "compiler/ir_xml.h"
#include "compiler/memory_source_testing.h"
#include "compiler/weight_writer.h"
#include "system/memory.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
namespace op = ov::opset13;
using model::TensorType;

constexpr char kName[] = "model.layers.0.mlp.up_proj.weight";

class WeightBinderTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("paceline-binder-{}", ::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// Writes the only tensor of `source` and a graph around it, and compiles that.
  ov::CompiledModel compile(const MemorySource& source, WeightKind kind) {
    TensorPlan plan;
    plan.tensors = {source.whole(kName, "w")};
    WriteOptions options;
    options.weights.weights = kind;
    NoProgress progress;
    BinFile bin = BinFile::create(directory_ / "m.bin").value();
    auto weights = write_weights(source, plan, bin, progress, options).value();
    WeightBinder binder(std::move(weights));
    const auto matrix = binder.matrix(kName);
    EXPECT_EQ(matrix.get_element_type(), ov::element::f32);
    const std::size_t columns = source.tensors()[0].shape.back();
    const auto x = std::make_shared<op::Parameter>(
        ov::element::f32, ov::PartialShape{-1, static_cast<std::int64_t>(columns)});
    const auto product = std::make_shared<op::MatMul>(x, matrix, false, true);
    const auto model =
        std::make_shared<ov::Model>(ov::OutputVector{product}, ov::ParameterVector{x});
    const Status written = write_ir_xml(model, binder.offsets(), bin, directory_ / "m.xml");
    EXPECT_TRUE(written) << written.error().message();
    return core_.compile_model(directory_ / "m.xml", "CPU",
                               ov::hint::inference_precision(ov::element::f32),
                               ov::hint::dynamic_quantization_group_size(0));
  }

  ov::Core core_;
  fs::path directory_;
};

/// How often each type of node is in the execution graph, but for inputs and outputs.
std::map<std::string, int> nodes_of(const ov::CompiledModel& compiled) {
  std::map<std::string, int> counts;
  for (const auto& node : compiled.get_runtime_model()->get_ordered_ops()) {
    const auto type = node->get_rt_info().at("layerType").as<std::string>();
    if (type != "Input" && type != "Const" && type != "Output") ++counts[type];
  }
  return counts;
}

/// The rows of the matrix, out of the products with unit vectors.
std::vector<float> multiplied_out(ov::CompiledModel& compiled, std::size_t columns) {
  ov::Tensor identity(ov::element::f32, {columns, columns});
  std::fill_n(identity.data<float>(), identity.get_size(), 0.0F);
  for (std::size_t i = 0; i < columns; ++i) identity.data<float>()[i * (columns + 1)] = 1.0F;
  auto request = compiled.create_infer_request();
  request.set_input_tensor(identity);
  request.infer();
  const ov::Tensor product = request.get_output_tensor();
  const std::size_t rows = product.get_size() / columns;
  std::vector<float> result(rows * columns);
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t row = 0; row < rows; ++row) {
      result[row * columns + column] = product.data<float>()[column * rows + row];
    }
  }
  return result;
}

double distance(const std::vector<float>& actual, const std::vector<float>& expected) {
  double squares = 0;
  double errors = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += expected[i] * expected[i];
    errors += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  }
  return std::sqrt(errors / squares);
}

TEST_F(WeightBinderTest, EveryKeptFormBecomesOneFullyConnectedAndMeansWhatItDid) {
  for (std::size_t number = 0; number < model::kTensorTypes; ++number) {
    const auto type = static_cast<TensorType>(number);
    if (type == TensorType::kF8_E4M3) continue;
    MemorySource source;
    source.add_random("w", type, {48, 512}, 3);
    auto compiled = compile(source, WeightKind::kKeep);
    const auto nodes = nodes_of(compiled);
    EXPECT_EQ(nodes, (std::map<std::string, int>{{"FullyConnected", 1}}))
        << model::to_string(type) << testing::PrintToString(nodes);
    EXPECT_LT(distance(multiplied_out(compiled, 512), source.values_of("w")), 1e-3)
        << model::to_string(type);
  }
}

TEST_F(WeightBinderTest, SoDoesEveryFormOfFloats) {
  const struct {
    WeightKind kind;
    std::size_t columns;
    double bound;
  } kKinds[] = {{WeightKind::kInt8, 512, 0.01},
                {WeightKind::kInt4, 512, 0.12},
                {WeightKind::kInt4, 576, 0.12},  // nine groups of 64
                {WeightKind::kInt4Asymmetric, 512, 0.11},
                {WeightKind::kInt4Asymmetric, 576, 0.11},
                {WeightKind::kF16, 512, 1e-3},
                {WeightKind::kBF16, 512, 4e-3},
                {WeightKind::kF32, 512, 1e-6}};
  for (const auto& form : kKinds) {
    MemorySource source;
    source.add_random("w", TensorType::kF32, {49, form.columns}, 4);
    auto compiled = compile(source, form.kind);
    const auto nodes = nodes_of(compiled);
    EXPECT_EQ(nodes, (std::map<std::string, int>{{"FullyConnected", 1}}))
        << to_string(form.kind) << testing::PrintToString(nodes);
    EXPECT_LT(distance(multiplied_out(compiled, form.columns), source.values_of("w")), form.bound)
        << to_string(form.kind);
  }
}

TEST_F(WeightBinderTest, AStackOfExpertsKeepsItsShape) {
  MemorySource source;
  source.add_random("w", TensorType::kBF16, {3, 16, 128}, 5);
  TensorPlan plan;
  plan.tensors = {source.whole(kName, "w")};
  NoProgress progress;
  BinFile bin = BinFile::create(directory_ / "m.bin").value();
  for (const WeightKind kind :
       {WeightKind::kKeep, WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt4Asymmetric}) {
    WriteOptions options;
    options.weights.weights = kind;
    auto weights = write_weights(source, plan, bin, progress, options).value();
    WeightBinder binder(std::move(weights));
    EXPECT_EQ(binder.matrix(kName).get_partial_shape(), (ov::PartialShape{3, 16, 128}));
  }
}

StoredWeight plain(const ov::Shape& shape) {
  StoredWeight weight;
  weight.values = {ov::element::f32, shape, 64};
  return weight;
}

TEST_F(WeightBinderTest, ATiedMatrixIsSharedAndVectorsAreSpreadOut) {
  WeightBinder binder({{"table", plain({48, 256})}, {"norm", plain({256})}});
  const auto table = binder.matrix("table");
  EXPECT_EQ(table, binder.matrix("table"));
  EXPECT_EQ(table.get_partial_shape(), (ov::PartialShape{48, 256}));
  EXPECT_EQ(binder.vector("norm").get_partial_shape(), (ov::PartialShape{1, 1, 256}));
  EXPECT_EQ(binder.offsets(),
            (std::map<std::string, std::uint64_t>{{"self.norm", 64}, {"self.table", 64}}));
}

TEST_F(WeightBinderTest, TheXmlOfAnEnormousModelTakesNoMemory) {
  const ov::Shape large = {1U << 15, 1U << 15};  // 4 GB
  WeightBinder binder({{"table", plain(large)}});
  const auto model =
      std::make_shared<ov::Model>(ov::OutputVector{binder.matrix("table")}, ov::ParameterVector{});
  const std::uint64_t before = system::process_memory().value().resident_bytes;
  BinFile bin = BinFile::create(directory_ / "m.bin").value();
  const Status written = write_ir_xml(model, binder.offsets(), bin, directory_ / "m.xml");
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_LT(system::process_memory().value().resident_bytes, before + (64U << 20));
}

}  // namespace
}  // namespace paceline::compiler
