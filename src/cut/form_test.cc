// Layers that are copies have one form; whatever else differs has another.
#include "cut/form.h"

#include <gtest/gtest.h>

#include <openvino/op/add.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/softmax.hpp>

#include "cut/cut.h"
#include "cut/test_models.h"

namespace paceline::cut {
namespace {

using Models = std::vector<std::shared_ptr<ov::Model>>;

/// softmax(x + weights) over an axis.
std::shared_ptr<ov::Model> small_model(const std::shared_ptr<ov::Node>& weights, std::int64_t axis,
                                       std::int64_t width = 32) {
  const auto x =
      std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::PartialShape{-1, width});
  const auto sum = std::make_shared<ov::op::v1::Add>(x, weights);
  return std::make_shared<ov::Model>(
      ov::OutputVector{std::make_shared<ov::op::v8::Softmax>(sum, axis)}, ov::ParameterVector{x});
}

std::shared_ptr<ov::Node> weights(float first, std::size_t width = 32) {
  std::vector<float> values(width, 1.0F);
  values[0] = first;
  return ov::op::v0::Constant::create(ov::element::f32, {1, width}, values);
}

TEST(Form, IsThatOfAllModelsWithOtherWeights) {
  const auto form = form_of({small_model(weights(1.0F), 1)});
  ASSERT_TRUE(form);
  EXPECT_EQ(form, form_of({small_model(weights(2.0F), 1)}));
}

TEST(Form, DiffersByAttributesShapesTypesAndSmallConstants) {
  const auto form = form_of({small_model(weights(1.0F), 1)});
  EXPECT_NE(form, form_of({small_model(weights(1.0F), 0)}));
  EXPECT_NE(form, form_of({small_model(weights(1.0F, 48), 1, 48)}));
  const auto small = [](float value) {
    return ov::op::v0::Constant::create(ov::element::f32, {1, 1}, {value});
  };
  EXPECT_NE(form_of({small_model(small(1.0F), 1)}), form_of({small_model(small(2.0F), 1)}));
  EXPECT_EQ(form_of({small_model(small(2.0F), 1)}), form_of({small_model(small(2.0F), 1)}));
}

TEST(Form, TellsWhoseWeightsAModelUses) {
  const auto own = weights(1.0F);
  const auto other = weights(1.0F);
  EXPECT_NE(form_of({small_model(own, 1), small_model(own, 1)}),
            form_of({small_model(own, 1), small_model(other, 1)}));
}

TEST(Form, OfWindowsIsThatOfTheirKind) {
  const auto analysis = DecoderAnalysis::analyse(handmade_decoder({.layers = 6})).value();
  const auto window = [&](std::uint32_t begin) {
    return form_of({analysis.cut({begin, begin + 2}).value(),
                    analysis.cut({begin, begin + 1}).value(),
                    analysis.cut({begin + 1, begin + 2}).value()});
  };
  ASSERT_TRUE(window(1));
  EXPECT_EQ(window(1), window(2));
  EXPECT_EQ(window(1), window(3));
  EXPECT_NE(window(0), window(1));  // the embedding
  EXPECT_NE(window(4), window(1));  // the head
  // A stage with another layer's weights is no copy.
  EXPECT_NE(form_of({analysis.cut({1, 3}).value(), analysis.cut({1, 2}).value(),
                     analysis.cut({3, 4}).value()}),
            window(1));
}

}  // namespace
}  // namespace paceline::cut
