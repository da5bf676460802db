#include "cut/test_models.h"

#include <algorithm>
#include <filesystem>
#include <openvino/op/add.hpp>
#include <openvino/op/assign.hpp>
#include <openvino/op/broadcast.hpp>
#include <openvino/op/concat.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/gather.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/read_value.hpp>
#include <openvino/op/reduce_prod.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/scaled_dot_product_attention.hpp>
#include <openvino/op/shape_of.hpp>
#include <openvino/op/unsqueeze.hpp>
#include <openvino/pass/serialize.hpp>
#include <random>
#include <sstream>

namespace paceline::cut {
namespace {

constexpr std::size_t kHidden = 4;
constexpr std::size_t kVocabulary = 16;

using Value = ov::Output<ov::Node>;

/// Builds the graph; all shapes are [batch, heads = 1, tokens, 4] from the embedding on, or [batch,
/// tokens, 4].
class HandmadeDecoder {
 public:
  explicit HandmadeDecoder(const HandmadeOptions& options) : options_(options) {}
  std::shared_ptr<ov::Model> build();

 private:
  Value weight(const ov::Shape& shape);
  Value integer(std::int64_t value) {
    return ov::op::v0::Constant::create(ov::element::i64, ov::Shape{}, {value});
  }
  Value numbers(const std::vector<std::int64_t>& values) {
    return ov::op::v0::Constant::create(ov::element::i64, ov::Shape{values.size()}, values);
  }
  Value past_and_new(const Value& fresh, const std::string& name);
  Value layer(const Value& hidden, std::uint32_t index);
  Value with_leaks(Value hidden);

  HandmadeOptions options_;
  std::mt19937 random_{7};
  std::shared_ptr<ov::op::v0::Parameter> ids_;
  std::shared_ptr<ov::op::v0::Parameter> beams_;
  Value embedded_;
  Value first_key_;
  Value first_state_;
  ov::SinkVector sinks_;
};

Value HandmadeDecoder::weight(const ov::Shape& shape) {
  std::normal_distribution<float> normal;
  std::vector<float> values(ov::shape_size(shape));
  for (float& value : values) value = normal(random_);
  return ov::op::v0::Constant::create(ov::element::f32, shape, values);
}

Value HandmadeDecoder::past_and_new(const Value& fresh, const std::string& name) {
  if (!options_.stateful) return fresh;
  const auto variable = std::make_shared<ov::op::util::Variable>(ov::op::util::VariableInfo{
      ov::PartialShape{-1, 1, -1, static_cast<std::int64_t>(kHidden)}, ov::element::f32, name});
  const auto batch = std::make_shared<ov::op::v8::Gather>(
      std::make_shared<ov::op::v3::ShapeOf>(ids_), numbers({0}), integer(0));
  const auto empty_shape = std::make_shared<ov::op::v0::Concat>(
      ov::OutputVector{batch, numbers({1, 0, static_cast<std::int64_t>(kHidden)})}, 0);
  const auto zero = ov::op::v0::Constant::create(ov::element::f32, ov::Shape{}, {0.0F});
  const auto empty = std::make_shared<ov::op::v3::Broadcast>(zero, empty_shape);
  const auto read = std::make_shared<ov::op::v6::ReadValue>(empty, variable);
  const auto past = std::make_shared<ov::op::v8::Gather>(read, beams_, integer(0));
  if (!first_state_.get_node()) first_state_ = past;
  const auto all = std::make_shared<ov::op::v0::Concat>(ov::OutputVector{past, fresh}, 2);
  sinks_.push_back(std::make_shared<ov::op::v6::Assign>(all, variable));
  return all;
}

/// Adds what a stage after the first cannot have.
Value HandmadeDecoder::with_leaks(Value hidden) {
  const auto number_added = [&](const Value& number) {
    const auto as_float = std::make_shared<ov::op::v0::Convert>(number, ov::element::f32);
    return std::make_shared<ov::op::v1::Add>(hidden, as_float);
  };
  if (options_.layers_read_ids) {
    hidden = number_added(std::make_shared<ov::op::v0::Unsqueeze>(ids_, integer(-1)));
  }
  if (options_.layers_read_first_state && first_state_.get_node()) {
    hidden = number_added(
        std::make_shared<ov::op::v1::ReduceProd>(first_state_, numbers({0, 1, 2, 3}), false));
  }
  if (options_.layers_read_odd_shape) {
    const auto odd =
        std::make_shared<ov::op::v0::Concat>(ov::OutputVector{embedded_, embedded_}, 1);
    const auto shape = std::make_shared<ov::op::v3::ShapeOf>(odd);
    hidden = number_added(std::make_shared<ov::op::v1::ReduceProd>(shape, integer(0), false));
  }
  return hidden;
}

Value HandmadeDecoder::layer(const Value& hidden, std::uint32_t index) {
  const auto projected = [&](const Value& input) {
    return std::make_shared<ov::op::v0::MatMul>(input, weight({kHidden, kHidden}), false, true);
  };
  const Value input = with_leaks(hidden);
  const auto heads = [&] {
    return std::make_shared<ov::op::v0::Unsqueeze>(projected(input), integer(1));
  };
  const std::string suffix = std::to_string(index);
  const bool shares = options_.last_layer_reads_first_kv && index + 1 == options_.layers;
  const Value key = shares ? first_key_ : past_and_new(heads(), "key." + suffix);
  if (index == 0) first_key_ = key;
  const Value value = past_and_new(heads(), "value." + suffix);
  const auto attention =
      std::make_shared<ov::op::v13::ScaledDotProductAttention>(heads(), key, value, false);
  // One head: dropping its axis by a Gather keeps the batch and token axes where they were.
  const auto merged = std::make_shared<ov::op::v8::Gather>(attention, integer(0), integer(1));
  const auto residual = std::make_shared<ov::op::v1::Add>(hidden, projected(merged));
  return std::make_shared<ov::op::v1::Add>(residual, projected(residual));
}

std::shared_ptr<ov::Model> HandmadeDecoder::build() {
  ids_ = std::make_shared<ov::op::v0::Parameter>(ov::element::i64, ov::PartialShape{-1, -1});
  ids_->output(0).set_names({"input_ids"});
  beams_ = std::make_shared<ov::op::v0::Parameter>(ov::element::i32, ov::PartialShape{-1});
  beams_->output(0).set_names({"beam_idx"});
  embedded_ =
      std::make_shared<ov::op::v8::Gather>(weight({kVocabulary, kHidden}), ids_, integer(0));
  Value hidden = embedded_;
  for (std::uint32_t index = 0; index < options_.layers; ++index) hidden = layer(hidden, index);
  const auto logits =
      std::make_shared<ov::op::v0::MatMul>(hidden, weight({kVocabulary, kHidden}), false, true);
  ov::ResultVector results = {std::make_shared<ov::op::v0::Result>(logits)};
  if (options_.second_output) results.push_back(std::make_shared<ov::op::v0::Result>(hidden));
  ov::ParameterVector parameters = {ids_};
  if (options_.stateful) parameters.push_back(beams_);
  auto model = std::make_shared<ov::Model>(results, sinks_, parameters, "handmade");
  if (options_.same_names) {
    for (const auto& node : model->get_ops()) {
      const bool is_parameter = ov::is_type<ov::op::v0::Parameter>(node);
      if (!is_parameter) node->set_friendly_name("node");
    }
  }
  return model;
}

}  // namespace

std::shared_ptr<ov::Model> handmade_decoder(const HandmadeOptions& options) {
  return HandmadeDecoder(options).build();
}

std::vector<std::string> tiny_model_names() {
  std::vector<std::string> names;
  const std::filesystem::path directory = PACELINE_SOURCE_DIR "/tests/tiny_models";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (std::filesystem::exists(entry.path() / "openvino_model.xml")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

DecoderIr read_tiny_model(ov::Core& core, const std::string& name) {
  const auto directory = std::filesystem::path(PACELINE_SOURCE_DIR "/tests/tiny_models") / name;
  return read_decoder_ir(core, directory / "openvino_model.xml", directory / "openvino_model.bin")
      .value();
}

std::vector<LayerRange> split_evenly(std::uint32_t layers, std::uint32_t stages) {
  std::vector<LayerRange> ranges;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    ranges.push_back({layers * stage / stages, layers * (stage + 1) / stages});
  }
  return ranges;
}

Result<std::vector<ov::Tensor>> run_chain(ov::Core& core,
                                          const std::vector<std::shared_ptr<ov::Model>>& stages,
                                          const BatchSchedule& schedule,
                                          const std::vector<ov::Tensor>& data) {
  std::vector<ov::Tensor> tensors = data;
  for (const auto& stage : stages) {
    PACELINE_ASSIGN_OR_RETURN(tensors,
                              run_stateful(core, stage, exact_properties(1), schedule, tensors));
  }
  return tensors;
}

std::string as_xml(const std::shared_ptr<const ov::Model>& model) {
  std::ostringstream xml;
  std::ostringstream bin;
  ov::pass::Serialize(xml, bin).run_on_model(std::const_pointer_cast<ov::Model>(model));
  return xml.str();
}

}  // namespace paceline::cut
