// Drafts that branch: several guesses for one position, verified in one traversal.
//
// Data only. Row 0 of the verification is the last known token, row i + 1 is node i. An engine with
// an additive mask for new rows (PagedAttention's qq_bias) gets visible_rows(), and depths() as
// positions; accepted rows are then compacted, so that the KV cache is a line again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"

namespace paceline::spec {

class DraftTree {
 public:
  static constexpr std::int32_t kRoot = -1;  ///< the last known token
  static constexpr std::size_t kMaxNodes = 1024;

  /// The tree without branches.
  static DraftTree line(std::span<const std::int64_t> tokens);

  /// A guess after `parent` (an earlier node or kRoot); gives its number. The same token after the
  /// same parent is the same node. kInvalidArgument: there is no such parent.
  /// kResourceExhausted: kMaxNodes.
  Result<std::int32_t> add(std::int32_t parent, std::int64_t token);

  std::size_t size() const { return nodes_.size(); }
  std::size_t rows() const { return nodes_.size() + 1; }
  std::int64_t token(std::size_t node) const { return nodes_[node].token; }
  std::int32_t parent(std::size_t node) const { return nodes_[node].parent; }
  /// Of each row, how far it is from the last known token.
  std::vector<std::uint32_t> depths() const;
  /// rows x rows, row by row: 1 where a row may see another, itself and its ancestors.
  std::vector<std::uint8_t> visible_rows() const;
  /// `sampled`: the token that each row gave. The rows whose results count, from row 0 on down the
  /// branch that was guessed right: their sampled tokens are the text, and their KV rows are kept.
  /// kInvalidArgument: not one token per row.
  Result<std::vector<std::uint32_t>> accept(std::span<const std::int64_t> sampled) const;

 private:
  struct Node {
    std::int32_t parent = kRoot;
    std::int64_t token = 0;
  };
  std::int32_t child(std::int32_t parent, std::int64_t token) const;

  std::vector<Node> nodes_;
};

}  // namespace paceline::spec
