#include "cut/stateful_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <openvino/runtime/properties.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "cut/openvino_error.h"

namespace paceline::cut {
namespace {

constexpr std::uint64_t kSmallVocabulary = 64;  ///< where the model does not tell its own

bool is_data_input(const std::string& name) {
  return name == "input_ids" || name == "inputs_embeds";
}

/// The columns of one step: `tokens` new ones after `past`.
struct StepColumns {
  std::size_t past = 0;
  std::size_t tokens = 0;
};

ov::Tensor attention_mask(const BatchSchedule& schedule, StepColumns step) {
  const std::size_t columns = step.past + step.tokens;
  ov::Tensor mask(ov::element::i64, {schedule.batch(), columns});
  auto* values = mask.data<std::int64_t>();
  for (std::size_t row = 0; row < schedule.batch(); ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      *values++ = column >= schedule.padding[row] ? 1 : 0;
    }
  }
  return mask;
}

/// Positions from 0 at each sequence's first token, the same for every leading axis (M-RoPE has 3).
ov::Tensor position_ids(const BatchSchedule& schedule, StepColumns step, std::size_t axes) {
  ov::Shape shape = {schedule.batch(), step.tokens};
  if (axes > 0) shape.insert(shape.begin(), axes);
  ov::Tensor positions(ov::element::i64, shape);
  auto* values = positions.data<std::int64_t>();
  for (std::size_t axis = 0; axis < std::max<std::size_t>(axes, 1); ++axis) {
    for (std::size_t row = 0; row < schedule.batch(); ++row) {
      for (std::size_t token = 0; token < step.tokens; ++token) {
        const auto position = static_cast<std::int64_t>(step.past + token) - schedule.padding[row];
        *values++ = std::max<std::int64_t>(position, 0);
      }
    }
  }
  return positions;
}

ov::Tensor beam_idx(const BatchSchedule& schedule) {
  ov::Tensor beams(ov::element::i32, {schedule.batch()});
  for (std::size_t row = 0; row < schedule.batch(); ++row) {
    beams.data<std::int32_t>()[row] = static_cast<std::int32_t>(row);
  }
  return beams;
}

std::string name_of(const ov::Output<const ov::Node>& input) {
  return input.get_names().empty() ? input.get_node()->get_friendly_name() : input.get_any_name();
}

Result<ov::Tensor> step_input(const ov::Output<const ov::Node>& input,
                              const BatchSchedule& schedule, StepColumns step,
                              const ov::Tensor& data) {
  const std::string name = name_of(input);
  const ov::PartialShape& shape = input.get_partial_shape();
  if (is_data_input(name)) return data;
  if (name == "attention_mask") return attention_mask(schedule, step);
  if (name == "position_ids") {
    const bool has_axes = shape.rank() == ov::Rank(3) && shape[0].is_static();
    return position_ids(schedule, step,
                        has_axes ? static_cast<std::size_t>(shape[0].get_length()) : 0);
  }
  if (name == "beam_idx") return beam_idx(schedule);
  return fail(ErrorCode::kUnimplemented,
              "the model's input {} is not known (expected input_ids or inputs_embeds, "
              "attention_mask, position_ids, beam_idx)",
              name);
}

ov::Tensor copy_of(const ov::Tensor& source) {
  ov::Tensor copy(source.get_element_type(), source.get_shape());
  source.copy_to(copy);
  return copy;
}

/// Whether an element of an output [batch, (1,) tokens, width] belongs to a masked column.
bool is_padding(const BatchSchedule& schedule, StepColumns step, const ov::Shape& shape,
                std::size_t element) {
  if (shape.size() < 3 || shape[0] != schedule.batch() || shape[shape.size() - 2] != step.tokens ||
      ov::shape_size(shape) != shape[0] * step.tokens * shape.back()) {
    return false;
  }
  const std::size_t column = element / shape.back() % step.tokens;
  const std::size_t row = element / shape.back() / step.tokens;
  return step.past + column < schedule.padding[row];
}

/// Open dimensions, in order: batch and tokens.
std::optional<ov::Shape> step_shape(ov::PartialShape shape, std::size_t batch, std::size_t tokens) {
  if (shape.rank().is_dynamic()) return std::nullopt;
  std::vector<std::size_t> sizes = {tokens, batch};
  for (ov::Dimension& dimension : shape) {
    if (dimension.is_static()) continue;
    if (sizes.empty()) return std::nullopt;
    dimension = static_cast<std::int64_t>(sizes.back());
    sizes.pop_back();
  }
  return sizes.empty() ? std::optional(shape.to_shape()) : std::nullopt;
}

bool fill_random(ov::Tensor& tensor, std::uint64_t vocabulary_size, std::mt19937& random) {
  if (tensor.get_element_type() == ov::element::i64) {
    const std::uint64_t ids = vocabulary_size > 0 ? vocabulary_size : kSmallVocabulary;
    std::uniform_int_distribution<std::int64_t> id(0, static_cast<std::int64_t>(ids) - 1);
    for (auto& value : std::span(tensor.data<std::int64_t>(), tensor.get_size()))
      value = id(random);
    return true;
  }
  if (tensor.get_element_type() == ov::element::f32) {
    std::normal_distribution<float> normal;
    for (auto& value : std::span(tensor.data<float>(), tensor.get_size())) value = normal(random);
    return true;
  }
  return false;
}

double difference(float expected, float actual) {
  if (std::memcmp(&expected, &actual, sizeof(float)) == 0) return 0.0;
  const double distance = std::abs(static_cast<double>(expected) - static_cast<double>(actual));
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

}  // namespace

ov::AnyMap exact_properties(std::uint32_t threads) {
  return {ov::hint::inference_precision(ov::element::f32),
          ov::hint::dynamic_quantization_group_size(0),
          ov::hint::kv_cache_precision(ov::element::f32),
          ov::hint::execution_mode(ov::hint::ExecutionMode::ACCURACY),
          ov::num_streams(1),
          ov::inference_num_threads(static_cast<std::int32_t>(threads)),
          // The plugin's cache of kernels outlives the model and keeps some of its weights: 13 MB
          // of each layer of an 8B would stay.
          {"CPU_RUNTIME_CACHE_CAPACITY", 0}};
}

Result<std::vector<ov::Tensor>> run_stateful(ov::Core& core,
                                             const std::shared_ptr<const ov::Model>& model,
                                             const ov::AnyMap& properties,
                                             const BatchSchedule& schedule,
                                             const std::vector<ov::Tensor>& data) {
  try {
    auto compiled = core.compile_model(model, "CPU", properties);
    auto request = compiled.create_infer_request();
    std::vector<ov::Tensor> outputs;
    std::size_t past = 0;
    for (std::size_t step = 0; step < schedule.step_tokens.size(); ++step) {
      for (const auto& input : compiled.inputs()) {
        PACELINE_ASSIGN_OR_RETURN(
            const ov::Tensor tensor,
            step_input(input, schedule, {past, schedule.step_tokens[step]}, data.at(step)));
        request.set_tensor(input, tensor);
      }
      request.infer();
      outputs.push_back(copy_of(request.get_output_tensor(0)));
      past += schedule.step_tokens[step];
    }
    return outputs;
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{} does not run on the CPU: {}", model->get_friendly_name(),
                one_line(exception));
  }
}

Result<std::vector<ov::Tensor>> random_data(const ov::Model& model, const BatchSchedule& schedule,
                                            std::uint64_t vocabulary_size, std::uint32_t seed) {
  const auto inputs = model.inputs();
  const auto input = std::find_if(inputs.begin(), inputs.end(),
                                  [](const auto& each) { return is_data_input(name_of(each)); });
  if (input == inputs.end()) {
    return fail(ErrorCode::kInvalidArgument, "the model has no input input_ids or inputs_embeds");
  }
  std::mt19937 random(seed);
  std::vector<ov::Tensor> data;
  for (const std::uint32_t tokens : schedule.step_tokens) {
    const auto shape = step_shape(input->get_partial_shape(), schedule.batch(), tokens);
    if (!shape || !fill_random(data.emplace_back(input->get_element_type(), *shape),
                               vocabulary_size, random)) {
      return fail(
          ErrorCode::kUnimplemented,
          "the input {} is {} {}, expected i64 [batch, tokens] or f32 [batch, tokens, hidden]",
          name_of(*input), input->get_element_type().get_type_name(),
          input->get_partial_shape().to_string());
    }
  }
  return data;
}

Result<double> largest_difference(const BatchSchedule& schedule,
                                  const std::vector<ov::Tensor>& expected,
                                  const std::vector<ov::Tensor>& actual) {
  double largest = 0.0;
  float least_value = std::numeric_limits<float>::infinity();
  float greatest_value = -least_value;
  std::size_t past = 0;
  for (std::size_t step = 0; step < schedule.step_tokens.size(); ++step) {
    const ov::Tensor& a = expected.at(step);
    const ov::Tensor& b = actual.at(step);
    if (a.get_shape() != b.get_shape() || a.get_element_type() != ov::element::f32 ||
        b.get_element_type() != ov::element::f32) {
      return fail(ErrorCode::kInternal, "step {}: outputs are {} {} and {} {}, expected equal f32",
                  step, a.get_element_type().get_type_name(), a.get_shape().to_string(),
                  b.get_element_type().get_type_name(), b.get_shape().to_string());
    }
    for (std::size_t i = 0; i < a.get_size(); ++i) {
      if (is_padding(schedule, {past, schedule.step_tokens[step]}, a.get_shape(), i)) continue;
      const float value = a.data<const float>()[i];
      if (!std::isfinite(value)) {
        return fail(ErrorCode::kFailedPrecondition, "step {}: the output is not finite", step);
      }
      least_value = std::min(least_value, value);
      greatest_value = std::max(greatest_value, value);
      largest = std::max(largest, difference(value, b.data<const float>()[i]));
    }
    past += schedule.step_tokens[step];
  }
  if (!(least_value < greatest_value)) {
    return fail(ErrorCode::kFailedPrecondition, "the output is {} everywhere", least_value);
  }
  return largest;
}

}  // namespace paceline::cut
