// The logical KV blocks of a chain: which are free, and how many sequences hold each.
//
// Logical: a number that means the same in every stage; engines map it to their own memory. Holds
// no tensors. Prefix sharing by hash, eviction and preemption are the scheduler's. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace paceline::kv {

/// Blocks 0 .. capacity-1, each free or held by `references` holders. Thread-compatible.
/// Sharing or releasing a block that is free is a bug of ours and aborts.
class BlockPool {
 public:
  explicit BlockPool(std::uint32_t capacity);

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(references_.size()); }
  std::uint32_t free_blocks() const { return static_cast<std::uint32_t>(free_.size()); }
  /// Holders of `block`; 0 where it is free.
  std::uint32_t references(BlockId block) const;

  /// `count` free blocks, held once each, or kResourceExhausted and no change. The block released
  /// last is given first, so the choice is a function of the calls alone.
  Result<std::vector<BlockId>> allocate(std::uint32_t count);
  /// One holder more.
  void share(BlockId block);
  /// One holder less; without a holder the block is free.
  void release(BlockId block);

  /// kInternal with what is wrong: a free block that is held or free twice, or one that is lost.
  Status check() const;

 private:
  std::vector<std::uint32_t> references_;
  std::vector<BlockId> free_;  // the next one at the back
};

/// The blocks of one sequence, covering its tokens from position 0. Move-only: it holds its blocks
/// and releases them when it ends; the pool must outlive it. Thread-compatible.
class SequenceBlocks {
 public:
  SequenceBlocks(BlockPool* pool, std::uint32_t block_tokens);
  SequenceBlocks(SequenceBlocks&& other) noexcept;
  SequenceBlocks& operator=(SequenceBlocks&& other) noexcept;
  ~SequenceBlocks();

  std::uint32_t tokens() const { return tokens_; }
  std::span<const BlockId> blocks() const { return blocks_; }

  /// Makes room for `tokens` tokens in all, or kResourceExhausted and no change. A smaller number
  /// than now is an error of the caller: kInvalidArgument.
  Status grow(std::uint32_t tokens);
  /// Forgets tokens from position `tokens` and releases the blocks that hold none any more (a
  /// rewind after rejected drafts). kInvalidArgument for more tokens than now.
  Status truncate(std::uint32_t tokens);
  void free();
  /// A sequence that holds the same blocks as far as they are full within the first `tokens`
  /// tokens: a partly filled block is never shared, since both would write to it. Its tokens() says
  /// how far it got. kInvalidArgument for more tokens than now.
  Result<SequenceBlocks> share_prefix(std::uint32_t tokens) const;

 private:
  BlockPool* pool_;
  std::uint32_t block_tokens_;
  std::uint32_t tokens_ = 0;
  std::vector<BlockId> blocks_;
};

/// kInternal with what is wrong where pool and sequences disagree: every block must have as many
/// holders in the pool as there are sequences with it, and be in no sequence twice.
Status check_invariants(const BlockPool& pool, std::span<const SequenceBlocks> sequences);

}  // namespace paceline::kv
