// Cutting a decoder graph into stages: any contiguous layer range becomes a model of its own.
//
// Works on any stateful decoder IR, with no per-architecture code: layers are found from the graph
// (single-tensor cuts between the places where states enter), a stage is the backward closure of
// its output cut, and shape subgraphs that leak from other layers are repointed to the stage's own.
// docs/ARCHITECTURE.md describes the algorithm. OpenVINO exceptions are converted here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openvino/core/model.hpp>

#include "base/error.h"
#include "base/ids.h"

namespace paceline::cut {

/// Name of the boundary input of every stage but the first ([batch, tokens, hidden] of a stateful
/// stage) and of the output of every stage but the last. The input must be called inputs_embeds,
/// or SDPAToPagedAttention refuses the stage.
inline constexpr char kBoundaryInput[] = "inputs_embeds";
inline constexpr char kBoundaryOutput[] = "hidden_states";

/// What the cut needs to know of one model. Holds node pointers of that very model: keep it alive
/// and unchanged. Thread-compatible.
class DecoderAnalysis {
 public:
  struct Impl;
  static Result<DecoderAnalysis> analyse(std::shared_ptr<const ov::Model> model);
  DecoderAnalysis(DecoderAnalysis&&) noexcept;
  DecoderAnalysis& operator=(DecoderAnalysis&&) noexcept;
  ~DecoderAnalysis();

  std::uint32_t layers() const;
  /// Layers [range.begin, range.end) as a model: ids in where begin is 0, logits out where end is
  /// layers(), boundary tensors otherwise. Constants are shared with the source model.
  Result<std::shared_ptr<ov::Model>> cut(LayerRange range) const;

 private:
  explicit DecoderAnalysis(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::cut
