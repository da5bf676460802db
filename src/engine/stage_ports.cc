#include "engine/stage_ports.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "cut/cut.h"
#include "engine/stage_graph.h"

namespace paceline::engine {
namespace {

Result<ElementType> element_type(const ov::element::Type& type) {
  if (type == ov::element::f32) return ElementType::kF32;
  if (type == ov::element::f16) return ElementType::kF16;
  if (type == ov::element::bf16) return ElementType::kBF16;
  return fail(ErrorCode::kUnimplemented, "a boundary tensor of type {} cannot travel",
              type.get_type_name());
}

/// A port's shape without its leading rows; [N, 1, H] and [N, H] both have rows of [H].
Result<BoundarySpec> boundary_spec(const ov::Output<const ov::Node>& port, const char* name) {
  BoundarySpec spec;
  spec.name = name;
  PACELINE_ASSIGN_OR_RETURN(spec.type, element_type(port.get_element_type()));
  const ov::Dimension width = *port.get_partial_shape().rbegin();
  if (width.is_dynamic()) {
    return fail(ErrorCode::kUnimplemented, "boundary tensor {} has a row of dynamic size", name);
  }
  spec.row_shape = {static_cast<std::uint64_t>(width.get_length())};
  return spec;
}

/// bf16 is the upper half of an f32.
void append_bf16(const std::byte* from, std::uint64_t values, std::vector<float>& to) {
  for (std::uint64_t i = 0; i < values; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + i * sizeof(half), sizeof(half));
    to.push_back(std::bit_cast<float>(std::uint32_t{half} << 16U));
  }
}

}  // namespace

std::optional<std::size_t> final_rows_port(const ov::CompiledModel& model) {
  const auto& outputs = model.outputs();
  const auto found = std::find_if(outputs.begin(), outputs.end(), [](const auto& output) {
    return output.get_names().contains(kFinalRowsOutput);
  });
  if (found == outputs.end()) return std::nullopt;
  const auto type = found->get_element_type();
  const bool is_known = found->get_partial_shape().rank().is_static() &&
                        found->get_partial_shape().rbegin()->is_static();
  if (!is_known || (type != ov::element::f32 && type != ov::element::bf16)) return std::nullopt;
  return static_cast<std::size_t>(found - outputs.begin());
}

void append_final_rows(const ov::Tensor& tensor, std::uint64_t width,
                       const std::vector<bool>& is_wanted, std::vector<float>& to) {
  const auto* data = static_cast<const std::byte*>(tensor.data());
  const std::size_t row_bytes = width * tensor.get_element_type().size();
  const std::size_t rows = tensor.get_size() / width;
  to.reserve(to.size() + rows * width);
  for (std::size_t row = 0; row < rows; ++row) {
    if (!is_wanted.empty() && !is_wanted[row]) continue;
    const std::byte* const from = data + row * row_bytes;
    if (tensor.get_element_type() == ov::element::bf16) {
      append_bf16(from, width, to);
      continue;
    }
    to.resize(to.size() + width);
    std::memcpy(to.data() + to.size() - width, from, row_bytes);
  }
}

Result<StageInfo> stage_info(const ov::CompiledModel& model, LayerRange layers) {
  StageInfo info;
  info.layers = layers;
  info.is_first = layers.begin == 0;
  info.is_last = !model.output(0).get_names().contains(cut::kBoundaryOutput);
  for (const auto& input : model.inputs()) {
    if (info.is_first || !input.get_names().contains(cut::kBoundaryInput)) continue;
    PACELINE_ASSIGN_OR_RETURN(auto spec, boundary_spec(input, cut::kBoundaryOutput));
    info.input_boundary.push_back(std::move(spec));
  }
  PACELINE_ASSIGN_OR_RETURN(auto out, [&]() -> Result<BoundarySpec> {
    if (!info.is_last) return boundary_spec(model.output(0), cut::kBoundaryOutput);
    BoundarySpec logits;
    logits.row_shape = {
        static_cast<std::uint64_t>(model.output(0).get_partial_shape().rbegin()->get_length())};
    return logits;
  }());
  if (info.is_last) {
    info.vocabulary_size = out.row_shape.front();
    if (const auto port = final_rows_port(model)) {
      info.final_width = static_cast<std::uint64_t>(
          model.output(*port).get_partial_shape().rbegin()->get_length());
    }
  } else {
    info.output_boundary.push_back(std::move(out));
  }
  return info;
}

Status check_sizes(const StageInfo& info, std::uint64_t embedding_rows, const StageBatch& batch) {
  const std::size_t rows = batch.rows();
  if (batch.wants_final_rows && info.final_width == 0) {
    return fail(ErrorCode::kInvalidArgument, "the stage gives no final rows");
  }
  if (info.is_first) {
    if (batch.tokens.size() != rows) {
      return fail(ErrorCode::kInvalidArgument, "the step has {} tokens for {} rows",
                  batch.tokens.size(), rows);
    }
    for (const std::int64_t token : batch.tokens) {
      if (token < 0 ||
          (embedding_rows > 0 && static_cast<std::uint64_t>(token) >= embedding_rows)) {
        return fail(ErrorCode::kInvalidArgument, "token id {}, the model has {}", token,
                    embedding_rows);
      }
    }
    return {};
  }
  if (batch.boundaries.size() != info.input_boundary.size()) {
    return fail(ErrorCode::kInvalidArgument, "the step has {} boundary tensors, {} are expected",
                batch.boundaries.size(), info.input_boundary.size());
  }
  for (std::size_t index = 0; index < batch.boundaries.size(); ++index) {
    const std::uint64_t expected = rows * info.input_boundary[index].row_bytes();
    if (batch.boundaries[index].size() != expected) {
      return fail(ErrorCode::kInvalidArgument, "boundary tensor {} has {} bytes, {} are expected",
                  info.input_boundary[index].name, batch.boundaries[index].size(), expected);
    }
  }
  return {};
}

}  // namespace paceline::engine
