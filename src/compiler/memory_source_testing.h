// Tensors in memory as a source, for tests.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/small_llama.h"
#include "compiler/tensor_plan.h"
#include "model/dequantize.h"
#include "model/quantized_block.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

class MemorySource final : public model::TensorSource {
 public:
  const std::string& name() const override { return name_; }
  std::span<const model::TensorInfo> tensors() const override { return tensors_; }
  Status read(const model::TensorInfo& tensor, std::uint64_t offset,
              std::span<std::byte> into) const override {
    std::memcpy(into.data(), bytes_of(tensor).data() + offset, into.size());
    read_bytes += into.size();
    return {};
  }

  /// Before any is used: pointers to earlier ones become invalid.
  void add(std::string name, model::TensorType type, std::vector<std::uint64_t> shape,
           std::string bytes) {
    tensors_.push_back({std::move(name), type, std::move(shape), bytes.size()});
    bytes_.push_back(std::move(bytes));
  }
  void add_random(std::string name, model::TensorType type, std::vector<std::uint64_t> shape,
                  std::uint32_t seed = 1) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : shape) elements *= dimension;
    add(std::move(name), type, std::move(shape), random_blocks(type, elements, 0.1F, seed));
  }
  std::string& bytes_of(const model::TensorInfo& tensor) const {
    return bytes_[static_cast<std::size_t>(&tensor - tensors_.data())];
  }
  std::vector<float> values_of(std::string_view name) const {
    const model::TensorInfo& tensor = *find(name).value();
    const std::string& bytes = bytes_of(tensor);
    std::vector<float> values(bytes.size() / model::block_bytes(tensor.type) *
                              model::block_elements(tensor.type));
    model::dequantize(tensor.type, std::as_bytes(std::span(bytes)), values);
    return values;
  }
  /// A tensor of the graph that is all of one of the source.
  PlannedTensor whole(std::string graph_name, std::string_view name, RowOrder order = {}) const {
    const model::TensorInfo* tensor = find(name).value();
    std::uint64_t rows = tensor->shape[0];
    if (tensor->shape.size() == 3) rows *= tensor->shape[1];
    return {std::move(graph_name), tensor->shape, {{tensor, 0, rows}}, order};
  }

  mutable std::atomic<std::uint64_t> read_bytes = 0;

 private:
  std::string name_ = "memory";
  std::vector<model::TensorInfo> tensors_;
  mutable std::vector<std::string> bytes_;
};

}  // namespace paceline::compiler
