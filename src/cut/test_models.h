// Decoders for the folder's tests: the tiny models of tests/tiny_models, and graphs built by hand
// that have what no exported model should have.
#pragma once

#include <cstdint>
#include <memory>
#include <openvino/runtime/core.hpp>
#include <string>
#include <vector>

#include "cut/cut.h"
#include "cut/decoder_ir.h"
#include "cut/stateful_run.h"

namespace paceline::cut {

/// The names of the directories in tests/tiny_models, sorted.
std::vector<std::string> tiny_model_names();
DecoderIr read_tiny_model(ov::Core& core, const std::string& name);

/// Layer counts as even as they go: {layers 0..k1, k1..k2, ...}.
std::vector<LayerRange> split_evenly(std::uint32_t layers, std::uint32_t stages);

/// Runs a chain of stages, each over all steps.
Result<std::vector<ov::Tensor>> run_chain(ov::Core& core,
                                          const std::vector<std::shared_ptr<ov::Model>>& stages,
                                          const BatchSchedule& schedule,
                                          const std::vector<ov::Tensor>& data);

/// The .xml that a model would be saved as: equal texts, equal graphs.
std::string as_xml(const std::shared_ptr<const ov::Model>& model);

/// A decoder with one head of 4 per layer and random weights, and what may be wrong with one.
struct HandmadeOptions {
  std::uint32_t layers = 3;
  bool stateful = true;
  bool second_output = false;
  bool last_layer_reads_first_kv = false;  ///< KV shared between layers
  bool layers_read_ids = false;            ///< the ids themselves, past the hidden tensor
  bool layers_read_first_state = false;    ///< data of layer 0's state in every layer
  bool layers_read_odd_shape = false;      ///< a shape that only the embedding has
  bool same_names = false;                 ///< one friendly name for all nodes
};
std::shared_ptr<ov::Model> handmade_decoder(const HandmadeOptions& options);

}  // namespace paceline::cut
