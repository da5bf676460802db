// Cutting a decoder graph into stages: any contiguous layer range becomes a model of its own.
//
// Works on any stateful decoder IR, with no per-architecture code: layers are found from the graph
// (single-tensor cuts between the places where states enter), a stage is the backward closure of
// its output cut, and shape subgraphs that leak from other layers are repointed to the stage's own.
// README.md describes the algorithm. OpenVINO exceptions are converted here.
// Not here: PagedAttention. Cut first, then run SDPAToPagedAttention on the stage.
#pragma once

#include <cstdint>
#include <memory>
#include <openvino/core/model.hpp>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "cut/constant_extents.h"

namespace paceline::cut {

/// Name of the boundary input of every stage but the first ([batch, tokens, hidden] of a stateful
/// stage) and of the output of every stage but the last. The input must be called inputs_embeds,
/// or SDPAToPagedAttention refuses the stage.
inline constexpr char kBoundaryInput[] = "inputs_embeds";
inline constexpr char kBoundaryOutput[] = "hidden_states";

/// The tensor between two layers.
struct Boundary {
  ov::PartialShape shape;          ///< [batch, tokens, hidden]
  ov::element::Type element_type;  ///< as the graph computes it, before any inference precision
  std::uint64_t hidden_size = 0;   ///< the last dimension
};

/// What a layer keeps of each token. All zero for a layer without a KV cache.
struct LayerKv {
  std::uint32_t key_heads = 0;
  std::uint32_t key_head_size = 0;
  std::uint32_t value_head_size = 0;
  friend bool operator==(LayerKv, LayerKv) = default;
};

/// What the cut needs to know of one model. Holds the model and pointers into it: do not change it
/// meanwhile. Its const methods are thread-safe.
class DecoderAnalysis {
 public:
  struct Impl;
  /// kInvalidArgument where the model is not a stateful decoder with one output, kUnimplemented
  /// where its layers do not separate at one tensor.
  static Result<DecoderAnalysis> analyse(std::shared_ptr<const ov::Model> model);
  DecoderAnalysis(DecoderAnalysis&&) noexcept;
  DecoderAnalysis& operator=(DecoderAnalysis&&) noexcept;
  ~DecoderAnalysis();

  std::uint32_t layers() const;
  const std::shared_ptr<const ov::Model>& model() const;

  /// Layers [range.begin, range.end) as a model: ids in where begin is 0, logits out where end is
  /// layers(), boundary tensors otherwise. Constants are shared with the source model, which stays
  /// as it was. kOutOfRange for a range that is empty or beyond layers(); kUnimplemented, naming
  /// the node, where the range needs data of other layers that does not come through the boundary.
  Result<std::shared_ptr<ov::Model>> cut(LayerRange range) const;

  /// The tensor that layer `layer` reads; 0 <= layer < layers().
  Boundary boundary(std::uint32_t layer) const;
  LayerKv layer_kv(std::uint32_t layer) const;
  /// The last dimension of the logits; 0 where the model leaves it open.
  std::uint64_t vocabulary_size() const;

  /// Bytes of the constants that the stage of `range` reads, each counted once.
  Result<std::uint64_t> constant_bytes(LayerRange range) const;
  /// Where the constants lie in `weights`, the bytes of the .bin that the model was read on
  /// (read_decoder_ir gives both). kFailedPrecondition, naming it, where a constant lies elsewhere.
  Result<ConstantExtents> constant_extents(std::span<const std::byte> weights) const;

 private:
  explicit DecoderAnalysis(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::cut
