// Paged attention with a soft cap of the scores, cap * tanh(scores / cap), as Gemma 2 has it.
//
// OpenVINO's paged attention has no cap, and a ScaledDotProductAttention neither, so a package
// spells such attention out as products and a softmax. Here that becomes an operation of our own,
// which computes in f32 over f32 KV blocks. Rejected: the cap in the mask, which the paged form
// drops. Much slower than the plugin's own for long contexts: it has no blocking.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <openvino/core/model.hpp>
#include <openvino/op/op.hpp>

namespace paceline::engine {

/// Inputs: those of PagedAttentionExtension, as far as its window: queries [N, heads * D], keys and
/// values [N, KV heads * D], key and value cache [blocks, KV heads, 32, D], past_lens,
/// subsequence_begins, block_indices, block_indices_begins, scale, window (0: none). Output
/// [N, heads * D]. Writes the new keys and values into the caches.
class CappedPagedAttention final : public ov::op::Op {
 public:
  OPENVINO_OP("CappedPagedAttention", "paceline");
  CappedPagedAttention() = default;
  CappedPagedAttention(const ov::OutputVector& inputs, float cap);

  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool visit_attributes(ov::AttributeVisitor& visitor) override;
  bool has_evaluate() const override { return true; }
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;

 private:
  float cap_ = 0.0F;
};

/// The cap of each attention, by the friendly name of its last node.
using CappedAttentions = std::map<std::string, float>;

/// Puts a ScaledDotProductAttention without a cap in place of each capped attention that the graph
/// spells out, so that SDPAToPagedAttention finds it.
CappedAttentions take_caps(const std::shared_ptr<ov::Model>& stage);

/// After SDPAToPagedAttention: CappedPagedAttention in place of those that had a cap.
void give_caps(const std::shared_ptr<ov::Model>& stage, const CappedAttentions& caps);

}  // namespace paceline::engine
