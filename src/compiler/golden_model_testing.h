// The models of tests/golden/architectures: tiny ones with random weights, and what Hugging Face
// transformers computes for them. For tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <openvino/runtime/core.hpp>
#include <openvino/runtime/infer_request.hpp>
#include <openvino/runtime/properties.hpp>

#include "compiler/bin_file.h"
#include "compiler/tensor_plan.h"
#include "compiler/weight_writer.h"
#include "model/decoder_config.h"
#include "model/tensor_source.h"

namespace paceline::compiler {

/// Names of all models, sorted. Those of tests/golden/spellings, which are not among them, are
/// "../spellings/NAME".
std::vector<std::string> golden_names();

struct GoldenModel {
  std::string name;
  std::vector<std::vector<std::int64_t>> ids;     ///< two rows of as many tokens
  std::size_t padding = 0;                        ///< tokens on the left of the second row
  std::vector<std::size_t> prefills;              ///< of each run, what is sent at once
  std::vector<std::vector<float>> logits;         ///< of each run, [2, tokens, vocabulary]
  std::vector<std::vector<std::int64_t>> greedy;  ///< of each row, what follows the first run
  std::size_t vocabulary = 0;

  std::size_t tokens() const { return ids[0].size(); }
};

std::filesystem::path golden_directory(const std::string& name);
GoldenModel read_golden(const std::string& name);
/// What the reader of Hugging Face directories makes of its config.json.
model::DecoderConfig golden_config(const std::string& name);

/// The model's tensors as tests/golden/make_architectures.py draws them, stored as `type` (F32, F16
/// or BF16, all exact).
std::unique_ptr<model::TensorSource> draw_tensors(const std::string& name,
                                                  model::TensorType type = model::TensorType::kF32);

/// The weights of a plan in a .bin, and graphs over them, which need not be of the configuration
/// that the plan was made for.
class GoldenWeights {
 public:
  GoldenWeights(const model::TensorSource& source, const TensorPlan& plan,
                const std::filesystem::path& bin, const WriteOptions& options = {});
  std::shared_ptr<ov::Model> graph(const model::DecoderConfig& config, ov::Core& core);

 private:
  BinFile bin_;
  StoredWeights weights_;
};

/// Compiled so that nothing is rounded but f32 arithmetic.
ov::AnyMap exact_properties();

/// A batch of two that goes on from call to call.
class GoldenRun {
 public:
  GoldenRun(ov::InferRequest request, std::size_t padding);
  /// Logits [2, tokens, vocabulary] of new tokens, `ids` of each row.
  std::vector<float> feed(const std::vector<std::vector<std::int64_t>>& ids);

 private:
  ov::InferRequest request_;
  std::size_t padding_;
  std::size_t past_ = 0;
};

/// Logits of a run: `prefill` tokens at once, the others one by one.
std::vector<float> run_golden(const ov::InferRequest& request, const GoldenModel& golden,
                              std::size_t prefill);

/// The largest difference of two runs' logits where no padding is, by the standard deviation of the
/// expected ones.
double golden_difference(const GoldenModel& golden, const std::vector<float>& actual,
                         const std::vector<float>& expected);

}  // namespace paceline::compiler
