// The logical KV blocks of a chain: which are free, and how many sequences hold each.
//
// Logical: a number that means the same in every stage; engines map it to their own memory. Holds
// no tensors, and knows no sequences: those are BlockManager's (block_manager.h). Pure.
#pragma once

#include <cstdint>
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

}  // namespace paceline::kv
