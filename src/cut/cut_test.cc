// The cut itself: structure of the stages, errors, and equality in f32 on every tiny model.
#include "cut/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <openvino/op/constant.hpp>
#include <set>

#include "cut/test_models.h"

namespace paceline::cut {
namespace {

const BatchSchedule kSchedule = {{5, 0}, {22, 1, 3, 1, 1}};

std::vector<std::shared_ptr<ov::Model>> cut_all(const DecoderAnalysis& analysis,
                                                std::uint32_t stages) {
  std::vector<std::shared_ptr<ov::Model>> models;
  for (const LayerRange range : split_evenly(analysis.layers(), stages)) {
    models.push_back(analysis.cut(range).value());
  }
  return models;
}

std::set<std::string> input_names(const ov::Model& model) {
  std::set<std::string> names;
  for (const auto& input : model.inputs()) names.insert(input.get_any_name());
  return names;
}

class TinyModelTest : public testing::TestWithParam<std::string> {
 protected:
  ov::Core core_;
  DecoderIr ir_ = read_tiny_model(core_, GetParam());
  DecoderAnalysis analysis_ = DecoderAnalysis::analyse(ir_.model).value();
};

TEST_P(TinyModelTest, ChainsEqualTheWholeModel) {
  const auto data = random_data(*ir_.model, kSchedule, analysis_.vocabulary_size(), 3).value();
  const auto whole = run_stateful(core_, ir_.model, exact_properties(1), kSchedule, data);
  ASSERT_TRUE(whole) << whole.error().message();
  for (const std::uint32_t stages : {2U, 3U, analysis_.layers()}) {
    const auto chain = run_chain(core_, cut_all(analysis_, stages), kSchedule, data);
    ASSERT_TRUE(chain) << stages << " stages: " << chain.error().message();
    EXPECT_EQ(largest_difference(kSchedule, *whole, *chain).value(), 0.0) << stages << " stages";
  }
}

TEST_P(TinyModelTest, StagesTakeOnlyWhatTheyNeed) {
  const auto stages = cut_all(analysis_, analysis_.layers());
  std::size_t states = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto names = input_names(*stages[i]);
    EXPECT_EQ(names.contains("input_ids"), i == 0);
    EXPECT_EQ(names.contains(kBoundaryInput), i > 0);
    for (const auto& name : names) {
      if (name == kBoundaryInput) continue;
      EXPECT_TRUE(input_names(*ir_.model).contains(name)) << name;
    }
    const auto outputs = stages[i]->outputs();
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_EQ(outputs[0].get_names().contains(kBoundaryOutput), i + 1 < stages.size());
    if (i > 0) {
      EXPECT_EQ(stages[i]->input(kBoundaryInput).get_node()->get_friendly_name(), kBoundaryInput);
    }
    EXPECT_EQ(stages[i]->get_variables().size(), stages[i]->get_sinks().size());
    states += stages[i]->get_variables().size();
    EXPECT_EQ(stages[i]->get_rt_info().size(), ir_.model->get_rt_info().size());
  }
  EXPECT_EQ(states, ir_.model->get_variables().size());
}

TEST_P(TinyModelTest, TheSourceStaysAsItWasAndItsConstantsAreShared) {
  const std::string before = as_xml(ir_.model);
  const auto first = analysis_.cut({1, 2}).value();
  const auto second = analysis_.cut({1, 2}).value();
  EXPECT_EQ(as_xml(first), as_xml(second));
  EXPECT_EQ(as_xml(ir_.model), before);
  const auto bytes = ir_.weight_bytes();
  for (const auto& node : first->get_ops()) {
    const auto constant = ov::as_type_ptr<ov::op::v0::Constant>(node);
    if (!constant || constant->get_byte_size() < 256) continue;
    const auto* data = static_cast<const std::byte*>(constant->get_data_ptr());
    EXPECT_TRUE(data >= bytes.data() && data < bytes.data() + bytes.size())
        << constant->get_friendly_name();
  }
}

TEST_P(TinyModelTest, KnowsSizes) {
  EXPECT_EQ(analysis_.layers(), 4U);
  EXPECT_EQ(analysis_.vocabulary_size(), 256U);
  for (std::uint32_t layer = 0; layer < analysis_.layers(); ++layer) {
    EXPECT_EQ(analysis_.boundary(layer).hidden_size, 32U);
    EXPECT_EQ(analysis_.boundary(layer).element_type, ov::element::f32);
    const LayerKv kv = analysis_.layer_kv(layer);
    EXPECT_EQ(kv.key_head_size, 16U);
    EXPECT_EQ(kv.value_head_size, 16U);
    EXPECT_EQ(kv.key_heads, GetParam() == "phi3" || GetParam() == "olmo2" ? 1U : 2U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyModelTest, testing::ValuesIn(tiny_model_names()),
                         [](const auto& info) { return info.param; });

TEST(TinyModelsTest, AreManyArchitectures) { EXPECT_GE(tiny_model_names().size(), 8U); }

TEST(CutTest, OutlivesTheSourceAndTheCore) {
  std::shared_ptr<ov::Model> stage;
  {
    ov::Core core;
    const DecoderIr ir = read_tiny_model(core, "llama_tied");
    stage = DecoderAnalysis::analyse(ir.model)->cut({2, 4}).value();
  }
  ov::Core core;
  const auto data = random_data(*stage, kSchedule, 0, 3).value();
  EXPECT_TRUE(run_stateful(core, stage, exact_properties(1), kSchedule, data));
}

TEST(CutTest, RefusesRangesThatAreEmptyOrBeyondTheLayers) {
  const auto analysis = DecoderAnalysis::analyse(handmade_decoder({})).value();
  for (const LayerRange range : {LayerRange{0, 0}, {2, 1}, {0, 4}, {3, 4}, {7, 0xffffffffU}}) {
    const auto stage = analysis.cut(range);
    ASSERT_FALSE(stage);
    EXPECT_EQ(stage.error().code(), ErrorCode::kOutOfRange);
  }
}

TEST(CutTest, NodesNeedNoNamesOfTheirOwn) {
  ov::Core core;
  const auto model = handmade_decoder({.same_names = true});
  const auto analysis = DecoderAnalysis::analyse(model).value();
  ASSERT_EQ(analysis.layers(), 3U);
  const auto data = random_data(*model, kSchedule, analysis.vocabulary_size(), 3).value();
  const auto whole = run_stateful(core, model, exact_properties(1), kSchedule, data).value();
  const auto chain = run_chain(core, cut_all(analysis, 3), kSchedule, data).value();
  EXPECT_EQ(largest_difference(kSchedule, whole, chain).value(), 0.0);
}

TEST(CutTest, RefusesAStageThatNeedsAnotherStagesData) {
  const auto message_of = [](const HandmadeOptions& options) {
    const auto analysis = DecoderAnalysis::analyse(handmade_decoder(options));
    if (!analysis) return analysis.error().message();
    const auto stage = analysis->cut({1, 2});
    return stage ? std::string("no error") : stage.error().message();
  };
  EXPECT_THAT(message_of({.layers_read_first_state = true}), testing::HasSubstr("key.0"));
  EXPECT_THAT(message_of({.layers_read_odd_shape = true}), testing::HasSubstr("ShapeOf"));
}

TEST(CutTest, EightyLayersAreAnalysedAndCutInTime) {
  const auto model = handmade_decoder({.layers = 80});
  const auto start = std::chrono::steady_clock::now();
  const auto analysis = DecoderAnalysis::analyse(model).value();
  ASSERT_EQ(analysis.layers(), 80U);
  EXPECT_EQ(cut_all(analysis, 80).size(), 80U);
  // Not a benchmark: a cubic algorithm would take minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace paceline::cut
