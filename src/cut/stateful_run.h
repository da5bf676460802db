// Runs a stateful decoder, or a stage of one, over a padded batch: what the self-test compares.
//
// Not an engine: it serves no requests and knows nothing of blocks; it exists to compute the same
// schedule on the whole model and on stages.
#pragma once

#include <cstdint>
#include <memory>
#include <openvino/runtime/core.hpp>
#include <vector>

#include "base/error.h"

namespace paceline::cut {

/// A batch of sequences padded at the left, in steps: a prefill and what follows.
struct BatchSchedule {
  std::vector<std::uint32_t> padding;      ///< by sequence: columns at the left that are masked
  std::vector<std::uint32_t> step_tokens;  ///< by step: new columns
  std::size_t batch() const { return padding.size(); }
};

/// CPU in f32 all through: no dynamic quantization, f32 KV, accuracy mode, a fixed thread count.
ov::AnyMap exact_properties(std::uint32_t threads);

/// Compiles the model on the CPU and runs the schedule from an empty state. `data` has per step
/// what the model reads: ids i64 [batch, tokens] or hidden tensors [batch, tokens, hidden]. Returns
/// each step's output. kUnimplemented for a model with inputs that are not known.
Result<std::vector<ov::Tensor>> run_stateful(ov::Core& core,
                                             const std::shared_ptr<const ov::Model>& model,
                                             const ov::AnyMap& properties,
                                             const BatchSchedule& schedule,
                                             const std::vector<ov::Tensor>& data);

/// Random tensors of the model's data input (input_ids or inputs_embeds), by step, from a seed.
Result<std::vector<ov::Tensor>> random_data(const ov::Model& model, const BatchSchedule& schedule,
                                            std::uint64_t vocabulary_size, std::uint32_t seed);

/// Largest absolute difference of f32 outputs over all steps, 0 where bits are equal, infinity
/// where one is no number. Columns of padding are left out. kInternal where shapes differ;
/// kFailedPrecondition where `expected` has values that are not finite, or one value only: such
/// outputs would prove nothing.
Result<double> largest_difference(const BatchSchedule& schedule,
                                  const std::vector<ov::Tensor>& expected,
                                  const std::vector<ov::Tensor>& actual);

}  // namespace paceline::cut
