#include "engine/paged_engine.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <openvino/runtime/core.hpp>

#include "cut/cut.h"
#include "cut/openvino_error.h"
#include "engine/device_properties.h"
#include "engine/paged_graph.h"
#include "engine/paged_inputs.h"
#include "engine/stage_graph.h"
#include "engine/stage_ports.h"

namespace paceline::engine {
namespace {

bool is_cache(const std::string& name) {
  return name.starts_with("key_cache.") || name.starts_with("value_cache.");
}

template <typename T>
ov::Tensor view(ov::element::Type type, std::vector<T>& values) {
  return ov::Tensor(type, ov::Shape{values.size()}, values.data());
}

class PagedEngine final : public StageEngine {
 public:
  PagedEngine(StageInfo info, std::uint64_t embedding_rows, bool pad_single,
              ov::CompiledModel model)
      : info_(std::move(info)),
        embedding_rows_(embedding_rows),
        pad_single_(pad_single),
        model_(std::move(model)) {}

  Status allocate_caches(const StageOptions& options);
  const StageInfo& info() const override { return info_; }
  Result<StageOutput> run(const StageBatch& batch) override;

 private:
  void copy_blocks(std::span<const BlockCopy> copies);
  void bind(PagedInputs& inputs);
  void bind_boundary(const StageBatch& batch, const PagedInputs& inputs);
  void set(const char* name, const ov::Tensor& tensor);
  StageOutput output(const StageBatch& batch, const PagedInputs& inputs);

  StageInfo info_;
  std::uint64_t embedding_rows_;  ///< 0: not known
  bool pad_single_;
  PagedAddressing addressing_;
  ov::CompiledModel model_;
  ov::InferRequest request_;
  std::map<std::string, ov::Tensor> caches_;
  std::vector<std::byte> padded_boundary_;
  std::vector<float> final_rows_;
};

Status PagedEngine::allocate_caches(const StageOptions& options) {
  addressing_.logical_block_tokens = options.logical_block_tokens;
  addressing_.kv_blocks = options.kv_blocks;
  request_ = model_.create_infer_request();
  for (const auto& input : model_.inputs()) {
    const std::string name = input.get_any_name();
    if (!is_cache(name)) continue;
    const ov::PartialShape& shape = input.get_partial_shape();
    // Keys by channel add rows of scales to a block; values always have one row per token.
    if (name.starts_with("value_cache.")) {
      const auto block_tokens = static_cast<std::uint32_t>(shape[2].get_length());
      if (options.logical_block_tokens == 0 || options.logical_block_tokens % block_tokens != 0) {
        return fail(ErrorCode::kInvalidArgument,
                    "a logical block of {} tokens is no multiple of the engine's {}",
                    options.logical_block_tokens, block_tokens);
      }
      addressing_.blocks_per_logical = options.logical_block_tokens / block_tokens;
    }
  }
  const std::size_t blocks = (std::size_t{options.kv_blocks} + 1) * addressing_.blocks_per_logical;
  for (const auto& input : model_.inputs()) {
    const std::string name = input.get_any_name();
    if (!is_cache(name)) continue;
    ov::Shape shape = {blocks};
    for (std::size_t axis = 1; axis < input.get_partial_shape().size(); ++axis) {
      shape.push_back(static_cast<std::size_t>(input.get_partial_shape()[axis].get_length()));
    }
    const ov::Tensor tensor(input.get_element_type(), shape);
    info_.kv_bytes += tensor.get_byte_size();
    request_.set_tensor(input, tensor);
    caches_.emplace(name, tensor);
  }
  return {};
}

void PagedEngine::copy_blocks(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    for (auto& [name, tensor] : caches_) {
      const std::size_t bytes =
          tensor.get_byte_size() / tensor.get_shape()[0] * addressing_.blocks_per_logical;
      auto* data = static_cast<std::byte*>(tensor.data());
      std::memmove(data + copy.to.value() * bytes, data + copy.from.value() * bytes, bytes);
    }
  }
}

void PagedEngine::set(const char* name, const ov::Tensor& tensor) {
  for (const auto& input : model_.inputs()) {
    if (input.get_names().contains(name)) request_.set_tensor(input, tensor);
  }
}

void PagedEngine::bind(PagedInputs& inputs) {
  if (info_.is_first) set("input_ids", view(ov::element::i64, inputs.input_ids));
  set("position_ids", view(ov::element::i64, inputs.position_ids));
  set("past_lens", view(ov::element::i32, inputs.past_lens));
  set("subsequence_begins", view(ov::element::i32, inputs.subsequence_begins));
  set("block_indices", view(ov::element::i32, inputs.block_indices));
  set("block_indices_begins", view(ov::element::i32, inputs.block_indices_begins));
  set("max_context_len", ov::Tensor(ov::element::i32, ov::Shape{}, &inputs.max_context_len));
  if (info_.is_last) set(kSampledRowsInput, view(ov::element::i64, inputs.sampled_rows));
}

void PagedEngine::bind_boundary(const StageBatch& batch, const PagedInputs& inputs) {
  for (const auto& input : model_.inputs()) {
    if (!input.get_names().contains(cut::kBoundaryInput)) continue;
    std::span<const std::byte> bytes = batch.boundaries.front();
    if (inputs.padding_rows > 0) {
      const std::uint64_t row_bytes = info_.input_boundary.front().row_bytes();
      padded_boundary_.assign(inputs.is_wanted.size() * row_bytes, std::byte{0});
      const std::byte* from = bytes.data();
      for (std::size_t row = 0; row < inputs.is_wanted.size(); ++row) {
        if (!inputs.is_wanted[row]) continue;
        std::memcpy(padded_boundary_.data() + row * row_bytes, from, row_bytes);
        from += row_bytes;
      }
      bytes = padded_boundary_;
    }
    ov::Shape shape = {inputs.is_wanted.size()};
    for (std::size_t axis = 1; axis + 1 < input.get_partial_shape().size(); ++axis) {
      shape.push_back(1);
    }
    shape.push_back(info_.input_boundary.front().row_shape.front());
    // The plugin only reads its inputs.
    request_.set_tensor(
        input, ov::Tensor(input.get_element_type(), shape, const_cast<std::byte*>(bytes.data())));
  }
}

StageOutput PagedEngine::output(const StageBatch& batch, const PagedInputs& inputs) {
  StageOutput result;
  ov::Tensor tensor = request_.get_output_tensor(0);
  auto* const data = static_cast<std::byte*>(tensor.data());
  if (info_.is_last) {
    const std::size_t samples = inputs.sampled_rows.size() - inputs.padding_samples;
    result.logits = {reinterpret_cast<const float*>(data), samples * info_.vocabulary_size};
    if (batch.wants_final_rows) {
      final_rows_.clear();
      append_final_rows(request_.get_output_tensor(*final_rows_port(model_)), info_.final_width,
                        inputs.is_wanted, final_rows_);
      result.final_rows = final_rows_;
    }
    return result;
  }
  const std::uint64_t row_bytes = info_.output_boundary.front().row_bytes();
  std::size_t kept = 0;
  for (std::size_t row = 0; row < inputs.is_wanted.size(); ++row) {
    if (!inputs.is_wanted[row]) continue;
    if (kept < row) std::memmove(data + kept * row_bytes, data + row * row_bytes, row_bytes);
    ++kept;
  }
  result.boundaries.push_back({data, kept * row_bytes});
  return result;
}

Result<StageOutput> PagedEngine::run(const StageBatch& batch) {
  PACELINE_RETURN_IF_ERROR(check_sizes(info_, embedding_rows_, batch));
  for (const BlockCopy& copy : batch.copies) {
    if (std::max(copy.from, copy.to).value() >= addressing_.kv_blocks) {
      return fail(ErrorCode::kInvalidArgument, "a block copy {} -> {} is outside of {} KV blocks",
                  copy.from.value(), copy.to.value(), addressing_.kv_blocks);
    }
  }
  PACELINE_ASSIGN_OR_RETURN(PagedInputs inputs, make_paged_inputs(batch, addressing_, pad_single_));
  StageOutput result;
  PACELINE_RETURN_IF_ERROR(cut::catch_openvino("inference", [&] {
    copy_blocks(batch.copies);
    bind(inputs);
    if (!info_.is_first) bind_boundary(batch, inputs);
    request_.infer();
    result = output(batch, inputs);
  }));
  return result;
}

}  // namespace

Result<std::unique_ptr<StageEngine>> make_paged_engine(std::shared_ptr<const ov::Model> decoder,
                                                       const StageOptions& options) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  PACELINE_ASSIGN_OR_RETURN(const auto analysis, cut::DecoderAnalysis::analyse(decoder));
  PACELINE_ASSIGN_OR_RETURN(const auto stage, analysis.cut(options.layers));
  ov::Core core;
  const std::uint64_t weight_bytes = constant_bytes(*stage);
  const std::uint64_t weight_group = weight_group_size(*stage);
  const std::uint64_t table_rows = embedding_rows(*stage);
  PACELINE_RETURN_IF_ERROR(make_paged(stage, inference_precision(core, options.profile)));
  PACELINE_ASSIGN_OR_RETURN(
      auto compiled, cut::catch_openvino("compiling the stage", [&] {
        return core.compile_model(
            stage, "CPU", cpu_properties(core, options.profile, options.threads, weight_group));
      }));
  PACELINE_ASSIGN_OR_RETURN(auto info, stage_info(compiled, options.layers));
  if (info.is_last) info.tokenizer = options.package / "tokenizer.json";
  info.weight_bytes = weight_bytes;
  info.compile_time = clock.now() - begin;
  auto engine = std::make_unique<PagedEngine>(
      std::move(info), table_rows, options.profile == Profile::kExact, std::move(compiled));
  PACELINE_RETURN_IF_ERROR(cut::catch_openvino("allocating KV blocks",
                                               [&] { return engine->allocate_caches(options); }));
  return engine;
}

Result<std::unique_ptr<StageEngine>> load_paged_engine(const StageOptions& options) {
  const auto path = options.package / "openvino_model.xml";
  PACELINE_ASSIGN_OR_RETURN(auto model, cut::catch_openvino(path.string(), [&] {
                              ov::Core core;
                              return std::shared_ptr<const ov::Model>(core.read_model(
                                  path.string(), std::string(), {ov::enable_mmap(true)}));
                            }));
  return make_paged_engine(std::move(model), options);
}

}  // namespace paceline::engine
