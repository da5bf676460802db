#include "kv/block_pool.h"

#include <algorithm>
#include <utility>

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

SequenceBlocks::SequenceBlocks(BlockPool* pool, std::uint32_t block_tokens)
    : pool_(pool), block_tokens_(block_tokens) {
  PACELINE_CHECK(pool != nullptr && block_tokens > 0);
}

SequenceBlocks::SequenceBlocks(SequenceBlocks&& other) noexcept
    : pool_(other.pool_),
      block_tokens_(other.block_tokens_),
      tokens_(std::exchange(other.tokens_, 0)),
      blocks_(std::exchange(other.blocks_, {})) {}

SequenceBlocks& SequenceBlocks::operator=(SequenceBlocks&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(block_tokens_, other.block_tokens_);
  std::swap(tokens_, other.tokens_);
  std::swap(blocks_, other.blocks_);
  return *this;
}

SequenceBlocks::~SequenceBlocks() { free(); }

Status SequenceBlocks::grow(std::uint32_t tokens) {
  if (tokens < tokens_) {
    return fail(ErrorCode::kInvalidArgument, "tokens: expected at least {} to grow, got {}",
                tokens_, tokens);
  }
  const std::uint64_t needed = (std::uint64_t{tokens} + block_tokens_ - 1) / block_tokens_;
  PACELINE_ASSIGN_OR_RETURN(const auto added,
                            pool_->allocate(static_cast<std::uint32_t>(needed - blocks_.size())));
  blocks_.insert(blocks_.end(), added.begin(), added.end());
  tokens_ = tokens;
  return {};
}

Status SequenceBlocks::truncate(std::uint32_t tokens) {
  if (tokens > tokens_) {
    return fail(ErrorCode::kInvalidArgument, "tokens: expected at most {} to truncate, got {}",
                tokens_, tokens);
  }
  const std::uint64_t kept = (std::uint64_t{tokens} + block_tokens_ - 1) / block_tokens_;
  if (tokens % block_tokens_ != 0 && pool_->references(blocks_[kept - 1]) > 1) {
    return fail(ErrorCode::kFailedPrecondition,
                "tokens: cannot truncate to {}: KV block {} is shared with other sequences", tokens,
                blocks_[kept - 1].value());
  }
  while (blocks_.size() > kept) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
  tokens_ = tokens;
  return {};
}

void SequenceBlocks::free() {
  // From the back, so that the next sequence gets the blocks in the same order.
  while (!blocks_.empty()) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
  tokens_ = 0;
}

Result<SequenceBlocks> SequenceBlocks::share_prefix(std::uint32_t tokens) const {
  if (tokens > tokens_) {
    return fail(ErrorCode::kInvalidArgument, "tokens: expected at most {} to share, got {}",
                tokens_, tokens);
  }
  SequenceBlocks copy(pool_, block_tokens_);
  const std::uint32_t full = tokens / block_tokens_;
  copy.blocks_.assign(blocks_.begin(), blocks_.begin() + full);
  for (const BlockId block : copy.blocks_) pool_->share(block);
  copy.tokens_ = full * block_tokens_;
  return copy;
}

Status check_invariants(const BlockPool& pool, std::span<const SequenceBlocks> sequences) {
  PACELINE_RETURN_IF_ERROR(pool.check());
  std::vector<std::uint32_t> holders(pool.capacity(), 0);
  for (const SequenceBlocks& sequence : sequences) {
    std::vector<BlockId> blocks(sequence.blocks().begin(), sequence.blocks().end());
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].value() >= pool.capacity() || (i > 0 && blocks[i] == blocks[i - 1])) {
        return fail(ErrorCode::kInternal, "KV block {} is twice in one sequence, or no block",
                    blocks[i].value());
      }
      ++holders[blocks[i].value()];
    }
  }
  for (std::uint32_t block = 0; block < pool.capacity(); ++block) {
    if (holders[block] != pool.references(BlockId(block))) {
      return fail(ErrorCode::kInternal, "KV block {} is in {} sequences but held {} times", block,
                  holders[block], pool.references(BlockId(block)));
    }
  }
  return {};
}

}  // namespace paceline::kv
