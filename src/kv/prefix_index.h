// Which blocks hold the KV of which text: full blocks of tokens as a tree.
//
// A node is one full block of tokens after its parent's tokens; the nodes below a root are the
// texts of one salt (whatever else the KV depends on: tenant, adapter, image keys; the model and
// profile are those of the chain whose index this is). So a node stands for all tokens from
// position 0.
//
// Not a table of hashes: with SHA-256 over the text from position 0 a hit would be as sure, but kv
// has no SHA-256 (it is in shard, which reads files), and a shorter hash would have to compare the
// tokens all the same. Comparing a block's tokens below the parent's *node* is exact by induction,
// cannot be attacked by made-up collisions, and gives a node's children for eviction.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace paceline::kv {

/// Numbers are never used again; 0: no node.
using PrefixNode = StrongId<struct PrefixNodeTag, std::uint64_t>;
inline constexpr PrefixNode kNoNode{0};

/// Thread-compatible. Holds block numbers, not the blocks.
class PrefixIndex {
 public:
  std::size_t size() const { return nodes_.size(); }
  bool contains(PrefixNode node) const { return nodes_.contains(node); }
  BlockId block(PrefixNode node) const { return nodes_.at(node).block; }
  /// The node that `block` is the content of, or kNoNode.
  PrefixNode node_of(BlockId block) const;

  /// The root of `salt`, or kNoNode where no text of that salt is here.
  PrefixNode find_root(std::string_view salt) const;
  /// The block of exactly these tokens below `parent` (a node or a root), or kNoNode.
  PrefixNode find(PrefixNode parent, std::span<const std::int64_t> tokens) const;

  /// A root for `salt`; it goes away by itself with the last node below it.
  PrefixNode make_root(std::string_view salt);
  /// `block` holds `tokens` below `parent`, which must be there; neither may be known already.
  /// `stamp`: see erase_since().
  PrefixNode insert(PrefixNode parent, std::span<const std::int64_t> tokens, BlockId block,
                    std::uint64_t stamp);
  /// Forgets the node and all below it, which could not be found any more. Gives their blocks.
  std::vector<BlockId> erase(PrefixNode node);
  /// The same for all nodes with a stamp of at least `stamp`.
  std::vector<BlockId> erase_since(std::uint64_t stamp);

 private:
  struct Key {
    PrefixNode parent;
    std::vector<std::int64_t> tokens;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Node {
    std::map<Key, PrefixNode>::iterator place;
    BlockId block;
    std::uint64_t stamp = 0;
  };

  void drop_empty_root(PrefixNode root);

  std::uint64_t last_node_ = 0;
  std::map<std::string, PrefixNode, std::less<>> roots_;
  std::map<PrefixNode, std::string> salts_;  ///< of the roots
  std::map<Key, PrefixNode> children_;       ///< a parent's stand side by side
  std::map<PrefixNode, Node> nodes_;
  std::map<BlockId, PrefixNode> by_block_;
};

}  // namespace paceline::kv
