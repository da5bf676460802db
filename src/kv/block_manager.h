// The KV blocks of all sequences of a chain: block tables, the cache of prefixes, eviction.
//
// A block is held by the sequences whose tables have it, and once more by the prefix cache if its
// content can be found there. A cached block that no sequence holds stays until its place is
// needed: the one unused for longest goes first, a text's end before its beginning. A block that
// others can see is never written: whoever writes next gets a copy of its own (copy on write).
//
// It plans, and moves no bytes: what it hands out is right in the order in which steps are planned,
// because every stage executes them in that order. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace paceline::kv {

/// Before the rows of a step: the content of `from` into `to`.
struct BlockCopy {
  BlockId from;
  BlockId to;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

/// Thread-compatible. An unknown or twice opened sequence is a bug of ours and aborts.
class BlockManager {
 public:
  BlockManager(std::uint32_t blocks, std::uint32_t block_tokens);

  std::uint32_t block_tokens() const { return block_tokens_; }
  std::uint32_t capacity_blocks() const { return pool_.capacity(); }
  std::uint64_t capacity_tokens() const { return std::uint64_t{capacity_blocks()} * block_tokens_; }
  /// Free ones, and cached ones that no sequence holds.
  std::uint32_t available_blocks() const;
  std::uint32_t cached_blocks() const { return static_cast<std::uint32_t>(index_.size()); }
  std::size_t sequences() const { return tables_.size(); }
  /// Blocks that hold `tokens` tokens.
  std::uint32_t blocks_for(std::uint64_t tokens) const;

  /// How many tokens at the begin of `tokens` have cached KV: whole blocks.
  std::uint32_t cached_prefix(std::string_view salt, std::span<const std::int64_t> tokens) const;
  /// How much available_blocks() sinks when open() reuses up to `most` of `tokens` and the sequence
  /// then grows to `total` tokens.
  std::uint32_t blocks_to_open(std::string_view salt, std::span<const std::int64_t> tokens,
                               std::uint32_t most, std::uint64_t total) const;

  /// A new sequence with the cached blocks of `tokens`, of which it takes at most `most` tokens;
  /// gives how many. The last block may then be partly its own: reserve() copies it.
  std::uint32_t open(SequenceId sequence, std::string_view salt,
                     std::span<const std::int64_t> tokens, std::uint32_t most);
  /// A new sequence that begins with the first `tokens` tokens of `parent` (at most its own).
  void fork(SequenceId sequence, SequenceId parent, std::uint32_t tokens);
  /// Cuts the sequence to `begin` tokens, which it must have, and makes room for [begin, end) to be
  /// written; gives the copies to make first. kResourceExhausted: too few blocks are available, and
  /// nothing but the cut was done.
  Result<std::vector<BlockCopy>> reserve(SequenceId sequence, std::uint32_t begin,
                                         std::uint32_t end);
  /// How many tokens the sequence could have in all if it took every available block.
  std::uint64_t reachable_tokens(SequenceId sequence) const;
  /// The KV of `tokens`, the sequence's from position 0, is planned: full blocks of it can be found
  /// from now on. `stamp`: the newest step that writes to them (see forget_since()).
  void publish(SequenceId sequence, std::string_view salt, std::span<const std::int64_t> tokens,
               std::uint64_t stamp);
  void free(SequenceId sequence);

  std::uint32_t tokens(SequenceId sequence) const { return tables_.at(sequence).tokens; }
  std::span<const BlockId> table(SequenceId sequence) const { return tables_.at(sequence).blocks; }

  /// Cached blocks with a stamp of at least `stamp` cannot be found any more: their step was
  /// undone.
  void forget_since(std::uint64_t stamp);
  /// True where a write to [begin, end) is seen by this sequence alone.
  bool is_writable(SequenceId sequence, std::uint32_t begin, std::uint32_t end) const;
  /// kInternal with what is wrong: a leaked block, wrong holders, a table that does not fit its
  /// length, a block that is cached and evictable at the wrong time.
  Status check() const;

 private:
  struct Table {
    std::uint32_t tokens = 0;
    std::vector<BlockId> blocks;
    std::uint32_t published = 0;     ///< blocks from the begin that publish() is done with
    PrefixNode last_node = kNoNode;  ///< of the last of them
    bool is_off_tree = false;        ///< its last node was evicted: it publishes no more
  };

  Table& add(SequenceId sequence);
  /// Cached blocks of `tokens`, in order.
  std::vector<PrefixNode> match(std::string_view salt, std::span<const std::int64_t> tokens) const;
  bool is_cached(BlockId block) const { return index_.node_of(block) != kNoNode; }
  bool is_shared(BlockId block) const { return pool_.references(block) > 1; }
  void hold(BlockId block);
  void release(BlockId block);
  void cut(Table& table, std::uint32_t tokens);
  Result<std::vector<BlockId>> allocate(std::uint32_t count);
  void uncache(std::span<const BlockId> blocks);
  Status check_table(const Table& table) const;

  const std::uint32_t block_tokens_;
  BlockPool pool_;
  PrefixIndex index_;
  std::map<SequenceId, Table> tables_;
  // Cached blocks without a sequence, by when the last one left.
  std::uint64_t last_use_ = 0;
  std::map<std::uint64_t, BlockId> evictable_;
  std::map<BlockId, std::uint64_t> use_of_;
};

}  // namespace paceline::kv
