#include "kv/block_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paceline::kv {

BlockManager::BlockManager(std::uint32_t blocks, std::uint32_t block_tokens)
    : block_tokens_(block_tokens), pool_(blocks) {
  PACELINE_CHECK(block_tokens > 0);
}

std::uint32_t BlockManager::available_blocks() const {
  return pool_.free_blocks() + static_cast<std::uint32_t>(evictable_.size());
}

std::uint32_t BlockManager::blocks_for(std::uint64_t tokens) const {
  return static_cast<std::uint32_t>((tokens + block_tokens_ - 1) / block_tokens_);
}

std::vector<PrefixNode> BlockManager::match(std::string_view salt,
                                            std::span<const std::int64_t> tokens) const {
  std::vector<PrefixNode> nodes;
  PrefixNode node = index_.find_root(salt);
  while (node != kNoNode && tokens.size() >= block_tokens_) {
    node = index_.find(node, tokens.first(block_tokens_));
    tokens = tokens.subspan(block_tokens_);
    if (node != kNoNode) nodes.push_back(node);
  }
  return nodes;
}

std::uint32_t BlockManager::cached_prefix(std::string_view salt,
                                          std::span<const std::int64_t> tokens) const {
  return static_cast<std::uint32_t>(match(salt, tokens).size()) * block_tokens_;
}

std::uint32_t BlockManager::blocks_to_open(std::string_view salt,
                                           std::span<const std::int64_t> tokens, std::uint32_t most,
                                           std::uint64_t total) const {
  const std::vector<PrefixNode> nodes = match(salt, tokens);
  const auto hits = std::min(static_cast<std::uint32_t>(nodes.size()), blocks_for(most));
  std::uint32_t unused = 0;
  for (std::uint32_t hit = 0; hit < hits; ++hit) {
    unused += use_of_.contains(index_.block(nodes[hit])) ? 1 : 0;
  }
  // A block that is hit in part is copied.
  const std::uint32_t copies = std::uint64_t{hits} * block_tokens_ > most ? 1 : 0;
  return unused + copies + std::max(blocks_for(total), hits) - hits;
}

BlockManager::Table& BlockManager::add(SequenceId sequence) {
  const auto [place, is_new] = tables_.try_emplace(sequence);
  PACELINE_CHECK(is_new);
  return place->second;
}

std::uint32_t BlockManager::open(SequenceId sequence, std::string_view salt,
                                 std::span<const std::int64_t> tokens, std::uint32_t most) {
  Table& table = add(sequence);
  for (const PrefixNode node : match(salt, tokens)) {
    if (table.tokens >= most) break;
    hold(index_.block(node));
    table.blocks.push_back(index_.block(node));
    table.tokens = std::min(table.tokens + block_tokens_, most);
    // The block that is hit in part stays another's.
    if (table.tokens % block_tokens_ != 0) break;
    table.last_node = node;
    ++table.published;
  }
  return table.tokens;
}

void BlockManager::fork(SequenceId sequence, SequenceId parent, std::uint32_t tokens) {
  const Table& from = tables_.at(parent);
  PACELINE_CHECK(tokens <= from.tokens);
  Table& table = add(sequence);
  table.tokens = tokens;
  table.blocks.assign(from.blocks.begin(), from.blocks.begin() + blocks_for(tokens));
  for (const BlockId block : table.blocks) hold(block);
  // Its place in the tree is that of its last whole published block; the parent knows its own only.
  const std::uint32_t whole = std::min(tokens / block_tokens_, from.published);
  table.published = whole;
  table.is_off_tree = from.is_off_tree;
  if (whole > 0) table.last_node = index_.node_of(table.blocks[whole - 1]);
  // The parent's block may be a twin of the cached one.
  if (whole > 0 && table.last_node == kNoNode) table.is_off_tree = true;
}

void BlockManager::hold(BlockId block) {
  pool_.share(block);
  const auto use = use_of_.find(block);
  if (use == use_of_.end()) return;
  evictable_.erase(use->second);
  use_of_.erase(use);
}

void BlockManager::release(BlockId block) {
  pool_.release(block);
  if (pool_.references(block) != 1 || !is_cached(block)) return;
  evictable_.emplace(++last_use_, block);
  use_of_.emplace(block, last_use_);
}

void BlockManager::cut(Table& table, std::uint32_t tokens) {
  // From the back: a text's end is evicted before its beginning.
  while (table.blocks.size() > blocks_for(tokens)) {
    release(table.blocks.back());
    table.blocks.pop_back();
  }
  table.tokens = tokens;
  if (tokens / block_tokens_ >= table.published) return;
  table.published = tokens / block_tokens_;
  table.last_node =
      table.published > 0 ? index_.node_of(table.blocks[table.published - 1]) : kNoNode;
  if (table.published > 0 && table.last_node == kNoNode) table.is_off_tree = true;
}

Result<std::vector<BlockId>> BlockManager::allocate(std::uint32_t count) {
  if (count > available_blocks()) {
    return fail(ErrorCode::kResourceExhausted, "KV cache: {} blocks are needed, {} of {} are free",
                count, available_blocks(), capacity_blocks());
  }
  while (pool_.free_blocks() < count) {
    uncache(index_.erase(index_.node_of(evictable_.begin()->second)));
  }
  return pool_.allocate(count);
}

void BlockManager::uncache(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    const auto use = use_of_.find(block);
    if (use != use_of_.end()) {
      evictable_.erase(use->second);
      use_of_.erase(use);
    }
    pool_.release(block);
  }
}

Result<std::vector<BlockCopy>> BlockManager::reserve(SequenceId sequence, std::uint32_t begin,
                                                     std::uint32_t end) {
  Table& table = tables_.at(sequence);
  PACELINE_CHECK(begin <= table.tokens && begin <= end);
  cut(table, begin);
  const auto added = blocks_for(end) - static_cast<std::uint32_t>(table.blocks.size());
  bool copies = begin % block_tokens_ != 0 && end > begin && is_shared(table.blocks.back());
  if (copies && pool_.references(table.blocks.back()) == 2 && is_cached(table.blocks.back()) &&
      added + 1 > available_blocks()) {
    // Nobody else holds it: rather out of the cache than refused.
    uncache(index_.erase(index_.node_of(table.blocks.back())));
    copies = false;
  }
  PACELINE_ASSIGN_OR_RETURN(auto blocks, allocate(added + (copies ? 1 : 0)));
  std::vector<BlockCopy> made;
  if (copies) {
    made.push_back({table.blocks.back(), blocks.front()});
    release(table.blocks.back());
    table.blocks.back() = blocks.front();
    blocks.erase(blocks.begin());
  }
  table.blocks.insert(table.blocks.end(), blocks.begin(), blocks.end());
  table.tokens = end;
  return made;
}

std::uint64_t BlockManager::reachable_tokens(SequenceId sequence) const {
  const Table& table = tables_.at(sequence);
  const bool copies = table.tokens % block_tokens_ != 0 && is_shared(table.blocks.back());
  const std::uint64_t more = available_blocks();
  if (copies && more == 0) return table.tokens;
  return (table.blocks.size() + more - (copies ? 1 : 0)) * block_tokens_;
}

void BlockManager::publish(SequenceId sequence, std::string_view salt,
                           std::span<const std::int64_t> tokens, std::uint64_t stamp) {
  Table& table = tables_.at(sequence);
  PACELINE_CHECK(tokens.size() <= table.tokens);
  while (!table.is_off_tree && std::size_t{table.published + 1} * block_tokens_ <= tokens.size()) {
    if (table.published > 0 && !index_.contains(table.last_node)) {
      table.is_off_tree = true;
      return;
    }
    const PrefixNode parent = table.published > 0 ? table.last_node : index_.make_root(salt);
    const auto content =
        tokens.subspan(std::size_t{table.published} * block_tokens_, block_tokens_);
    PrefixNode node = index_.find(parent, content);
    if (node == kNoNode) {
      const BlockId block = table.blocks[table.published];
      node = index_.insert(parent, content, block, stamp);
      pool_.share(block);
    }
    table.last_node = node;
    ++table.published;
  }
}

void BlockManager::free(SequenceId sequence) {
  const auto found = tables_.find(sequence);
  PACELINE_CHECK(found != tables_.end());
  cut(found->second, 0);
  tables_.erase(found);
}

void BlockManager::forget_since(std::uint64_t stamp) { uncache(index_.erase_since(stamp)); }

bool BlockManager::is_writable(SequenceId sequence, std::uint32_t begin, std::uint32_t end) const {
  const Table& table = tables_.at(sequence);
  if (end > table.tokens) return false;
  for (std::uint32_t block = begin / block_tokens_; block < blocks_for(end); ++block) {
    if (is_shared(table.blocks[block])) return false;
  }
  return true;
}

Status BlockManager::check_table(const Table& table) const {
  if (table.blocks.size() != blocks_for(table.tokens)) {
    return fail(ErrorCode::kInternal, "a sequence of {} tokens has {} KV blocks", table.tokens,
                table.blocks.size());
  }
  std::vector<BlockId> sorted = table.blocks;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return fail(ErrorCode::kInternal, "KV block {} is twice in one sequence", twice->value());
  }
  if (table.tokens % block_tokens_ != 0 && is_shared(table.blocks.back())) {
    return fail(ErrorCode::kInternal, "KV block {} is partly filled and shared",
                table.blocks.back().value());
  }
  return {};
}

Status BlockManager::check() const {
  PACELINE_RETURN_IF_ERROR(pool_.check());
  std::vector<std::uint32_t> holders(capacity_blocks(), 0);
  for (const auto& [sequence, table] : tables_) {
    if (auto status = check_table(table); !status) {
      return fail(status.error().with_context(fmt::format("sequence {}", sequence.value())));
    }
    for (const BlockId block : table.blocks) ++holders[block.value()];
  }
  if (evictable_.size() != use_of_.size()) {
    return fail(ErrorCode::kInternal, "{} KV blocks are evictable, {} have a time of use",
                evictable_.size(), use_of_.size());
  }
  for (std::uint32_t number = 0; number < capacity_blocks(); ++number) {
    const BlockId block(number);
    const std::uint32_t cached = is_cached(block) ? 1 : 0;
    if (holders[number] + cached != pool_.references(block)) {
      return fail(ErrorCode::kInternal, "KV block {} is in {} sequences{} but held {} times",
                  number, holders[number], cached > 0 ? " and cached" : "",
                  pool_.references(block));
    }
    if (use_of_.contains(block) != (cached > 0 && holders[number] == 0)) {
      return fail(ErrorCode::kInternal, "KV block {} has {} sequences and is {}evictable", number,
                  holders[number], use_of_.contains(block) ? "" : "not ");
    }
  }
  return {};
}

}  // namespace paceline::kv
