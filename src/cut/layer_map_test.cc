// Finding layers, and the clean refusal of what is no decoder.
#include "cut/layer_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <openvino/op/parameter.hpp>
#include <openvino/op/relu.hpp>
#include <openvino/op/result.hpp>

#include "cut/test_models.h"

namespace paceline::cut {
namespace {

Error error_of(const HandmadeOptions& options) {
  const auto map = find_layers(Graph(handmade_decoder(options)));
  return map ? Error(ErrorCode::kUnknown, "no error") : map.error();
}

TEST(LayerMapTest, FindsLayersAndWhatBelongsToThem) {
  const Graph graph(handmade_decoder({.layers = 5}));
  const LayerMap map = find_layers(graph).value();
  ASSERT_EQ(map.layers.size(), 5U);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(map.layers[layer].attentions, 1U);
    ASSERT_EQ(map.layers[layer].assigns.size(), 2U);
    ASSERT_EQ(map.layers[layer].reads.size(), 2U);
    EXPECT_EQ(graph.variable_id(map.layers[layer].assigns[0]), "key." + std::to_string(layer));
    EXPECT_EQ(graph.variable_id(map.layers[layer].reads[1]), "value." + std::to_string(layer));
    if (layer > 0) {
      EXPECT_GT(map.layers[layer].input.node, map.layers[layer - 1].input.node);
    }
  }
  EXPECT_GT(map.head_input.node, map.layers[4].input.node);
  EXPECT_EQ(graph.shape(map.head_input), graph.shape(map.layers[4].input));
}

TEST(LayerMapTest, OneLayerIsADecoderToo) {
  const LayerMap map = find_layers(Graph(handmade_decoder({.layers = 1}))).value();
  EXPECT_EQ(map.layers.size(), 1U);
}

TEST(LayerMapTest, RefusesAModelWithoutStates) {
  const Error error = error_of({.stateful = false});
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(), testing::HasSubstr("no states"));
}

TEST(LayerMapTest, RefusesASecondOutput) {
  const Error error = error_of({.second_output = true});
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(), testing::HasSubstr("2 outputs"));
}

TEST(LayerMapTest, RefusesLayersThatShareKv) {
  const Error error = error_of({.last_layer_reads_first_kv = true});
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), testing::HasSubstr("not separable"));
}

TEST(LayerMapTest, RefusesLayersThatReadTheIds) {
  const Error error = error_of({.layers_read_ids = true});
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), testing::HasSubstr("not separable"));
}

TEST(LayerMapTest, RefusesAnotherKindOfModel) {
  const auto image = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{1});
  image->output(0).set_names({"pixel_values"});
  const auto result =
      std::make_shared<ov::op::v0::Result>(std::make_shared<ov::op::v0::Relu>(image));
  const auto model =
      std::make_shared<ov::Model>(ov::ResultVector{result}, ov::ParameterVector{image});
  const auto map = find_layers(Graph(model));
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(map.error().message(), testing::HasSubstr("input_ids"));
}

TEST(LayerMapTest, RefusesAnOutputThatDoesNotDependOnTheInput) {
  const auto ids = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{1});
  ids->output(0).set_names({"input_ids"});
  const auto other = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{1});
  const auto result = std::make_shared<ov::op::v0::Result>(other);
  const auto model =
      std::make_shared<ov::Model>(ov::ResultVector{result}, ov::ParameterVector{ids, other});
  const auto map = find_layers(Graph(model));
  ASSERT_FALSE(map);
  EXPECT_THAT(map.error().message(), testing::HasSubstr("does not depend"));
}

}  // namespace
}  // namespace paceline::cut
