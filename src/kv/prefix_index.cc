#include "kv/prefix_index.h"

#include "base/check.h"

namespace paceline::kv {

PrefixNode PrefixIndex::node_of(BlockId block) const {
  const auto found = by_block_.find(block);
  return found == by_block_.end() ? kNoNode : found->second;
}

PrefixNode PrefixIndex::find_root(std::string_view salt) const {
  const auto found = roots_.find(salt);
  return found == roots_.end() ? kNoNode : found->second;
}

PrefixNode PrefixIndex::find(PrefixNode parent, std::span<const std::int64_t> tokens) const {
  const auto found = children_.find(Key{parent, {tokens.begin(), tokens.end()}});
  return found == children_.end() ? kNoNode : found->second;
}

PrefixNode PrefixIndex::make_root(std::string_view salt) {
  const auto [place, is_new] = roots_.try_emplace(std::string(salt), PrefixNode(last_node_ + 1));
  if (is_new) salts_.emplace(PrefixNode(++last_node_), salt);
  return place->second;
}

PrefixNode PrefixIndex::insert(PrefixNode parent, std::span<const std::int64_t> tokens,
                               BlockId block, std::uint64_t stamp) {
  PACELINE_CHECK(contains(parent) || salts_.contains(parent));
  const PrefixNode node(++last_node_);
  const auto [place, is_new] =
      children_.try_emplace(Key{parent, {tokens.begin(), tokens.end()}}, node);
  PACELINE_CHECK(is_new);
  PACELINE_CHECK(by_block_.emplace(block, node).second);
  nodes_.emplace(node, Node{place, block, stamp});
  return node;
}

std::vector<BlockId> PrefixIndex::erase(PrefixNode node) {
  const PrefixNode parent = nodes_.at(node).place->first.parent;
  std::vector<BlockId> blocks;
  // Not by recursion: a long text is a deep tree.
  std::vector<PrefixNode> doomed = {node};
  while (!doomed.empty()) {
    const PrefixNode next = doomed.back();
    doomed.pop_back();
    for (auto child = children_.lower_bound(Key{next, {}});
         child != children_.end() && child->first.parent == next; ++child) {
      doomed.push_back(child->second);
    }
    const auto found = nodes_.find(next);
    blocks.push_back(found->second.block);
    by_block_.erase(found->second.block);
    children_.erase(found->second.place);
    nodes_.erase(found);
  }
  drop_empty_root(parent);
  return blocks;
}

void PrefixIndex::drop_empty_root(PrefixNode root) {
  const auto salt = salts_.find(root);
  if (salt == salts_.end()) return;
  const auto child = children_.lower_bound(Key{root, {}});
  if (child != children_.end() && child->first.parent == root) return;
  roots_.erase(salt->second);
  salts_.erase(salt);
}

std::vector<BlockId> PrefixIndex::erase_since(std::uint64_t stamp) {
  std::vector<PrefixNode> doomed;
  for (const auto& [id, node] : nodes_) {
    if (node.stamp >= stamp) doomed.push_back(id);
  }
  std::vector<BlockId> blocks;
  for (const PrefixNode node : doomed) {
    if (!contains(node)) continue;  // it went with its parent
    const std::vector<BlockId> below = erase(node);
    blocks.insert(blocks.end(), below.begin(), below.end());
  }
  return blocks;
}

}  // namespace paceline::kv
