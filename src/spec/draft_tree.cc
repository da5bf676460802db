#include "spec/draft_tree.h"

#include <algorithm>

namespace paceline::spec {

DraftTree DraftTree::line(std::span<const std::int64_t> tokens) {
  DraftTree tree;
  for (const std::int64_t token : tokens.first(std::min(tokens.size(), kMaxNodes))) {
    tree.nodes_.push_back({static_cast<std::int32_t>(tree.nodes_.size()) - 1, token});
  }
  return tree;
}

std::int32_t DraftTree::child(std::int32_t parent, std::int64_t token) const {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].parent == parent && nodes_[node].token == token) {
      return static_cast<std::int32_t>(node);
    }
  }
  return kRoot;
}

Result<std::int32_t> DraftTree::add(std::int32_t parent, std::int64_t token) {
  const auto count = static_cast<std::int32_t>(nodes_.size());
  if (parent < kRoot || parent >= count) {
    return fail(ErrorCode::kInvalidArgument, "draft tree: parent {}, expected {} to {}", parent,
                kRoot, count - 1);
  }
  const std::int32_t known = child(parent, token);
  if (known != kRoot) return known;
  if (nodes_.size() == kMaxNodes) {
    return fail(ErrorCode::kResourceExhausted, "draft tree: {} nodes, at most {}", count + 1,
                kMaxNodes);
  }
  nodes_.push_back({parent, token});
  return count;
}

std::vector<std::uint32_t> DraftTree::depths() const {
  std::vector<std::uint32_t> depths(rows(), 0);
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    depths[node + 1] = depths[static_cast<std::size_t>(nodes_[node].parent + 1)] + 1;
  }
  return depths;
}

std::vector<std::uint8_t> DraftTree::visible_rows() const {
  std::vector<std::uint8_t> visible(rows() * rows(), 0);
  for (std::size_t row = 0; row < rows(); ++row) {
    for (auto seen = static_cast<std::int32_t>(row); seen > 0;
         seen = nodes_[static_cast<std::size_t>(seen - 1)].parent + 1) {
      visible[row * rows() + static_cast<std::size_t>(seen)] = 1;
    }
    visible[row * rows()] = 1;
  }
  return visible;
}

Result<std::vector<std::uint32_t>> DraftTree::accept(std::span<const std::int64_t> sampled) const {
  if (sampled.size() != rows()) {
    return fail(ErrorCode::kInvalidArgument, "draft tree: {} sampled tokens for {} rows",
                sampled.size(), rows());
  }
  std::vector<std::uint32_t> kept = {0};
  for (;;) {
    const std::uint32_t row = kept.back();
    const std::int32_t next = child(static_cast<std::int32_t>(row) - 1, sampled[row]);
    if (next == kRoot) return kept;
    kept.push_back(static_cast<std::uint32_t>(next + 1));
  }
}

}  // namespace paceline::spec
