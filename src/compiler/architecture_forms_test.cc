// The forms that a graph of each architecture takes: what the CPU plugin fuses, what the GPU plugin
// looks for, stages, and paged attention.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include <openvino/op/concat.hpp>
#include <openvino/op/gather.hpp>
#include <openvino/op/util/assign_base.hpp>
#include <openvino/op/util/read_value_base.hpp>
#include <openvino/openvino.hpp>

#include "compiler/golden_model_testing.h"
#include "compiler/ir_directory.h"
#include "cut/cut.h"
#include "cut/decoder_ir.h"
#include "cut/self_test.h"
#include "cut/test_models.h"
#include "engine/paged_engine.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using model::LayerConfig;

constexpr std::uint32_t kBlocks = 4;
constexpr std::uint32_t kBlockTokens = 32;

class ArchitectureFormsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    config_ = golden_config(GetParam());
    directory_ =
        fs::temp_directory_path() / fmt::format("paceline-forms-{}-{}", GetParam(), ::getpid());
    fs::create_directories(directory_);
    NoProgress progress;
    const auto tensors = draw_tensors(GetParam());
    const auto built = build_ir_directory(*tensors, config_, directory_, progress);
    ASSERT_TRUE(built) << built.error().message();
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::shared_ptr<ov::Model> read() { return core_.read_model(directory_ / "openvino_model.xml"); }
  std::size_t layers() const { return config_.layers.size(); }
  std::size_t count_layers(bool (*wanted)(const LayerConfig&)) const {
    return static_cast<std::size_t>(
        std::count_if(config_.layers.begin(), config_.layers.end(), wanted));
  }
  bool is_capped() const { return config_.attention_softcap != 0.0F; }

  ov::Core core_;
  fs::path directory_;
  model::DecoderConfig config_;
};

using Counts = std::map<std::string, std::size_t>;

Counts count_nodes(const ov::Model& graph) {
  Counts counts;
  for (const auto& node : graph.get_ordered_ops()) {
    ++counts[node->get_rt_info().at("layerType").as<std::string>()];
  }
  return counts;
}

TEST_P(ArchitectureFormsTest, TheCpuPluginFusesWhatItCan) {
  const auto compiled = core_.compile_model(read(), "CPU", exact_properties());
  Counts counts = count_nodes(*compiled.get_runtime_model());
  const std::size_t experts = count_layers([](const LayerConfig& l) { return l.has_experts; });
  const std::size_t turning =
      count_layers([](const LayerConfig& l) { return l.rope != LayerConfig::kNoRope; });
  // Four of attention, three of a feed-forward or the router's, and the head.
  EXPECT_EQ(counts["FullyConnected"], 4 * layers() + 3 * (layers() - experts) + experts + 1);
  EXPECT_EQ(counts["GatherMatmul"], 3 * experts);
  EXPECT_EQ(counts["RoPE"], 2 * turning);
  EXPECT_EQ(counts["MemoryInput"], 2 * layers());
  const bool is_both = config_.norms == model::NormPlacement::kBoth;
  const bool has_head_norms = config_.query_key_norm != model::QueryKeyNorm::kNone;
  EXPECT_EQ(counts["RMS"], layers() * ((is_both ? 4 : 2) + (has_head_norms ? 2 : 0)) + 1);
  EXPECT_EQ(counts["ScaledDotProductAttention"], is_capped() ? 0 : layers());
}

/// The weights stay as they are stored: nothing is unpacked when a model is compiled.
TEST_P(ArchitectureFormsTest, QuantizedWeightsStayCompressed) {
  for (const auto& [kind, type] : {std::pair(WeightKind::kInt8, ov::element::i8),
                                   std::pair(WeightKind::kInt4, ov::element::i4)}) {
    WriteOptions options;
    options.weights.weights = options.weights.embedding = options.weights.head = kind;
    options.weights.group = 32;
    const auto tensors = draw_tensors(GetParam());
    const auto plan = plan_tensors(*tensors, config_).value();
    GoldenWeights weights(*tensors, plan, directory_ / "quantized.bin", options);
    const auto compiled =
        core_.compile_model(weights.graph(config_, core_), "CPU", exact_properties());
    for (const auto& node : compiled.get_runtime_model()->get_ordered_ops()) {
      const auto layer = node->get_rt_info().at("layerType").as<std::string>();
      if (layer != "FullyConnected" && layer != "GatherMatmul") continue;
      const bool is_router =
          node->get_input_partial_shape(1).get_max_shape()[0] == config_.experts.count;
      if (is_router && layer == "FullyConnected") continue;  // it is f32
      const ov::Shape shape = node->get_input_shape(1);
      const bool has_group = shape.back() % 32 == 0 || type == ov::element::i8;
      EXPECT_EQ(node->get_input_element_type(1), has_group ? type : ov::element::i8)
          << node->get_friendly_name() << shape;
    }
  }
}

/// The GPU plugin's indirect KV cache is found by ReadValue -> Gather(beam_idx) -> Concat ->
/// Assign.
TEST_P(ArchitectureFormsTest, EachStateIsReorderedAndGrows) {
  std::size_t found = 0;
  for (const auto& node : read()->get_ordered_ops()) {
    if (!ov::is_type<ov::op::util::ReadValueBase>(node)) continue;
    const auto readers = node->output(0).get_target_inputs();
    ASSERT_EQ(readers.size(), 1U);
    const auto* const gather = ov::as_type<ov::op::v8::Gather>(readers.begin()->get_node());
    ASSERT_NE(gather, nullptr);
    EXPECT_TRUE(gather->input_value(1).get_names().contains("beam_idx"));
    const auto grown = gather->output(0).get_target_inputs();
    ASSERT_EQ(grown.size(), 1U);
    const auto* const concat = ov::as_type<ov::op::v0::Concat>(grown.begin()->get_node());
    ASSERT_NE(concat, nullptr);
    for (const auto& input : concat->output(0).get_target_inputs()) {
      found += ov::is_type<ov::op::util::AssignBase>(input.get_node()) ? 1 : 0;
    }
  }
  EXPECT_EQ(found, 2 * layers());
}

TEST_P(ArchitectureFormsTest, StagesGiveTheSameBits) {
  const auto ir = cut::read_decoder_ir(core_, directory_ / "openvino_model.xml",
                                       directory_ / "openvino_model.bin");
  ASSERT_TRUE(ir) << ir.error().message();
  const auto analysis = cut::DecoderAnalysis::analyse(ir->model);
  ASSERT_TRUE(analysis) << analysis.error().message();
  ASSERT_EQ(analysis->layers(), layers());
  const auto report = cut::self_test(core_, *analysis, {});  // two stages, and one of each layer
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->whole_checked);
  EXPECT_EQ(report->largest_difference, 0.0);

  const cut::BatchSchedule schedule = {{0, 5}, {40, 1, 1}};
  const auto data = cut::random_data(*ir->model, schedule, analysis->vocabulary_size(), 1).value();
  std::vector<std::shared_ptr<ov::Model>> stages;
  for (const LayerRange range : cut::split_evenly(analysis->layers(), 3)) {
    auto stage = analysis->cut(range);
    ASSERT_TRUE(stage) << stage.error().message();
    stages.push_back(*stage);
  }
  const auto chained = cut::run_chain(core_, stages, schedule, data);
  ASSERT_TRUE(chained) << chained.error().message();
  const auto whole =
      cut::run_stateful(core_, ir->model, cut::exact_properties(1), schedule, data).value();
  EXPECT_EQ(cut::largest_difference(schedule, whole, *chained).value(), 0.0);
}

/// Logits of a sequence's tokens through stages in paged form, 24 at once and then one by one.
std::vector<float> run_paged(const fs::path& package, std::uint32_t layers, std::uint32_t stages,
                             const std::vector<std::int64_t>& ids) {
  std::vector<std::unique_ptr<engine::StageEngine>> engines;
  for (const LayerRange range : cut::split_evenly(layers, stages)) {
    engine::StageOptions options;
    options.package = package;
    options.layers = range;
    options.profile = Profile::kExact;
    options.threads = 1;
    options.kv_blocks = kBlocks;
    options.logical_block_tokens = kBlockTokens;
    auto loaded = engine::load_paged_engine(options);
    EXPECT_TRUE(loaded) << loaded.error().message();
    if (!loaded) return {};
    engines.push_back(std::move(*loaded));
  }
  std::vector<float> logits;
  for (std::uint32_t begin = 0; begin < ids.size();) {
    const std::uint32_t count = begin == 0 ? 24 : 1;
    engine::SequenceRows rows;
    rows.sequence = SequenceId(1);
    rows.past_tokens = begin;
    rows.new_tokens = count;
    for (std::uint32_t block = 0; block < kBlocks; ++block) rows.blocks.emplace_back(block);
    rows.sampled_rows.resize(count);
    std::iota(rows.sampled_rows.begin(), rows.sampled_rows.end(), 0U);
    engine::StageBatch batch;
    batch.sequences = {rows};
    batch.tokens.assign(ids.begin() + begin, ids.begin() + begin + count);
    for (const auto& engine : engines) {
      const auto output = engine->run(batch);
      EXPECT_TRUE(output) << output.error().message();
      if (!output) return {};
      batch.boundaries = output->boundaries;
      logits.insert(logits.end(), output->logits.begin(), output->logits.end());
    }
    begin += count;
  }
  return logits;
}

/// Token by token, so that frequencies that depend on the length are those of the paged form.
TEST_P(ArchitectureFormsTest, ThePagedFormAgreesWithTheStatefulOne) {
  const GoldenModel golden = read_golden(GetParam());
  ov::InferRequest request =
      core_.compile_model(read(), "CPU", exact_properties()).create_infer_request();
  std::vector<float> expected = run_golden(request, golden, 1);
  expected.resize(golden.tokens() * golden.vocabulary);  // the first row, which has no padding
  GoldenModel alone = golden;
  alone.padding = 0;
  const auto size = static_cast<std::uint32_t>(layers());
  const auto whole = run_paged(directory_, size, 1, golden.ids[0]);
  ASSERT_EQ(whole.size(), expected.size());
  EXPECT_LE(golden_difference(alone, whole, expected), 1e-4);
  const auto divided = run_paged(directory_, size, 3, golden.ids[0]);
  EXPECT_EQ(divided, whole);
}

INSTANTIATE_TEST_SUITE_P(All, ArchitectureFormsTest, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::compiler
