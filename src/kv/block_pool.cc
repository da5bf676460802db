#include "kv/block_pool.h"

#include "base/check.h"

namespace paceline::kv {

BlockPool::BlockPool(std::uint32_t capacity) : references_(capacity, 0) {
  free_.reserve(capacity);
  for (std::uint32_t block = capacity; block-- > 0;) free_.emplace_back(block);
}

std::uint32_t BlockPool::references(BlockId block) const {
  PACELINE_CHECK(block.value() < capacity());
  return references_[block.value()];
}

Result<std::vector<BlockId>> BlockPool::allocate(std::uint32_t count) {
  if (count > free_.size()) {
    return fail(ErrorCode::kResourceExhausted, "KV cache: {} blocks are needed, {} of {} are free",
                count, free_.size(), capacity());
  }
  std::vector<BlockId> blocks(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (const BlockId block : blocks) references_[block.value()] = 1;
  return blocks;
}

void BlockPool::share(BlockId block) {
  PACELINE_CHECK(references(block) > 0);
  ++references_[block.value()];
}

void BlockPool::release(BlockId block) {
  PACELINE_CHECK(references(block) > 0);
  if (--references_[block.value()] == 0) free_.push_back(block);
}

Status BlockPool::check() const {
  std::vector<bool> is_free(capacity(), false);
  for (const BlockId block : free_) {
    if (block.value() >= capacity() || is_free[block.value()] || references_[block.value()] != 0) {
      return fail(ErrorCode::kInternal, "KV block {} is free and held, or free twice",
                  block.value());
    }
    is_free[block.value()] = true;
  }
  for (std::uint32_t block = 0; block < capacity(); ++block) {
    if (references_[block] == 0 && !is_free[block]) {
      return fail(ErrorCode::kInternal, "KV block {} is lost: neither held nor free", block);
    }
  }
  return {};
}

}  // namespace paceline::kv
