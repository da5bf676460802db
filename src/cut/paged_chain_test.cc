// Stages are cut first and turned to PagedAttention after: a chain of them against the whole model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <openvino/pass/manager.hpp>
#include <openvino/pass/sdpa_to_paged_attention.hpp>

#include "cut/cut.h"
#include "cut/test_models.h"

namespace paceline::cut {
namespace {

constexpr std::size_t kBlockTokens = 32;
constexpr std::size_t kBlocksPerSequence = 2;
constexpr std::size_t kSequences = 3;

/// New tokens by sequence; those of a step run together.
using PagedStep = std::vector<std::size_t>;
const std::vector<PagedStep> kSteps = {{19, 0, 0}, {1, 33, 0}, {1, 1, 7}, {4, 1, 1}, {1, 1, 1}};

struct Addressing {
  std::map<std::string, ov::Tensor> tensors;
  std::size_t rows = 0;
};

template <typename Number>
ov::Tensor vector_tensor(const ov::element::Type& type, const std::vector<Number>& values) {
  ov::Tensor tensor(type, {values.size()});
  std::copy(values.begin(), values.end(), tensor.data<Number>());
  return tensor;
}

/// Sequence s has the blocks kBlocksPerSequence * s and the next.
Addressing address(const PagedStep& step, std::vector<std::size_t>& past) {
  std::vector<std::int64_t> positions;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> begins = {0};
  std::vector<std::int32_t> blocks;
  std::vector<std::int32_t> block_begins = {0};
  std::int32_t longest = 0;
  for (std::size_t sequence = 0; sequence < kSequences; ++sequence) {
    if (step[sequence] == 0) continue;
    const std::size_t total = past[sequence] + step[sequence];
    for (std::size_t at = past[sequence]; at < total; ++at) {
      positions.push_back(static_cast<std::int64_t>(at));
    }
    lengths.push_back(static_cast<std::int32_t>(past[sequence]));
    begins.push_back(static_cast<std::int32_t>(positions.size()));
    for (std::size_t block = 0; block * kBlockTokens < total; ++block) {
      blocks.push_back(static_cast<std::int32_t>(sequence * kBlocksPerSequence + block));
    }
    block_begins.push_back(static_cast<std::int32_t>(blocks.size()));
    longest = std::max(longest, static_cast<std::int32_t>(total));
    past[sequence] = total;
  }
  ov::Tensor longest_tensor(ov::element::i32, ov::Shape{});
  longest_tensor.data<std::int32_t>()[0] = longest;
  Addressing addressing;
  addressing.rows = positions.size();
  addressing.tensors = {{"position_ids", vector_tensor(ov::element::i64, positions)},
                        {"past_lens", vector_tensor(ov::element::i32, lengths)},
                        {"subsequence_begins", vector_tensor(ov::element::i32, begins)},
                        {"block_indices", vector_tensor(ov::element::i32, blocks)},
                        {"block_indices_begins", vector_tensor(ov::element::i32, block_begins)},
                        {"max_context_len", longest_tensor}};
  return addressing;
}

/// The pass opens the width of inputs_embeds to [?, ?], and without it the plugin does not fuse the
/// first norm and rounds otherwise (1e-6): the width is put back.
void to_paged(const std::shared_ptr<ov::Model>& model) {
  std::shared_ptr<ov::op::v0::Parameter> boundary;
  ov::Dimension width;
  for (const auto& parameter : model->get_parameters()) {
    if (parameter->get_friendly_name() != kBoundaryInput) continue;
    boundary = parameter;
    width = *parameter->get_partial_shape().rbegin();
  }
  ov::pass::Manager manager;
  manager.register_pass<ov::pass::SDPAToPagedAttention>();
  manager.run_passes(model);
  if (!boundary) return;
  boundary->set_partial_shape({-1, width});
  model->validate_nodes_and_infer_types();
}

/// A model in its PagedAttention form with its caches.
class PagedStage {
 public:
  PagedStage(ov::Core& core, const std::shared_ptr<ov::Model>& model) {
    to_paged(model);
    compiled_ = core.compile_model(model, "CPU", exact_properties(1));
    request_ = compiled_.create_infer_request();
    for (const auto& input : compiled_.inputs()) {
      const std::string name = input.get_any_name();
      if (!name.starts_with("key_cache.") && !name.starts_with("value_cache.")) continue;
      ov::PartialShape shape = input.get_partial_shape();
      shape[0] = static_cast<std::int64_t>(kSequences * kBlocksPerSequence);
      ov::Tensor cache(input.get_element_type(), shape.to_shape());
      std::memset(cache.data(), 0, cache.get_byte_size());
      request_.set_tensor(input, cache);
      ++caches_;
    }
  }

  std::size_t caches() const { return caches_; }

  /// `data`: ids [rows] or hidden [rows, hidden]; returns [rows, 1, width].
  ov::Tensor run(const Addressing& addressing, const ov::Tensor& data) {
    for (const auto& input : compiled_.inputs()) {
      for (const auto& name : input.get_names()) {
        const auto tensor = addressing.tensors.find(name);
        if (tensor != addressing.tensors.end()) request_.set_tensor(input, tensor->second);
        if (name == "input_ids" || name == kBoundaryInput) request_.set_tensor(input, data);
      }
    }
    request_.infer();
    const ov::Tensor output = request_.get_output_tensor(0);
    ov::Tensor copy(output.get_element_type(), output.get_shape());
    output.copy_to(copy);
    return copy;
  }

 private:
  ov::CompiledModel compiled_;
  ov::InferRequest request_;
  std::size_t caches_ = 0;
};

class PagedChainTest : public testing::TestWithParam<std::string> {
 protected:
  /// Each step's logits.
  std::vector<ov::Tensor> run(const std::vector<std::shared_ptr<ov::Model>>& models) {
    std::vector<PagedStage> stages;
    std::size_t caches = 0;
    for (const auto& model : models) caches += stages.emplace_back(core_, model).caches();
    EXPECT_EQ(caches, ir_.model->get_variables().size());
    std::vector<std::size_t> past(kSequences, 0);
    std::vector<ov::Tensor> logits;
    std::int64_t next = 1;
    for (const PagedStep& step : kSteps) {
      const Addressing addressing = address(step, past);
      ov::Tensor data(ov::element::i64, {addressing.rows});
      for (std::size_t row = 0; row < addressing.rows; ++row) {
        data.data<std::int64_t>()[row] = (next = next * 75 % 251);
      }
      for (PagedStage& stage : stages) {
        data = stage.run(addressing, data);
        data.set_shape({data.get_shape().front(), data.get_shape().back()});
      }
      logits.push_back(data);
    }
    return logits;
  }

  ov::Core core_;
  DecoderIr ir_ = read_tiny_model(core_, GetParam());
};

TEST_P(PagedChainTest, EqualsThePagedWhole) {
  const auto analysis = DecoderAnalysis::analyse(ir_.model).value();
  const auto whole = run({ir_.model->clone()});
  for (const std::uint32_t count : {2U, analysis.layers()}) {
    std::vector<std::shared_ptr<ov::Model>> stages;
    for (const LayerRange range : split_evenly(analysis.layers(), count)) {
      stages.push_back(analysis.cut(range).value());
    }
    const auto chain = run(stages);
    for (std::size_t step = 0; step < kSteps.size(); ++step) {
      const BatchSchedule rows = {std::vector<std::uint32_t>(whole[step].get_shape()[0], 0), {1}};
      const auto difference = largest_difference(rows, {whole[step]}, {chain[step]});
      ASSERT_TRUE(difference) << difference.error().message();
      EXPECT_EQ(*difference, 0.0) << count << " stages, step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PagedChainTest, testing::ValuesIn(tiny_model_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::cut
