// Which slots of a growing KV state hold tokens that still count. Pure.
//
// A state can only grow, or be read, cut and set again. Forgotten tokens may therefore stay in
// their slots behind a mask for a while.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::engine {

/// Slots [begin, end).
struct SlotRun {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(SlotRun, SlotRun) = default;
};

/// Thread-compatible.
class KvSlots {
 public:
  std::uint32_t tokens() const { return tokens_; }
  std::size_t slots() const { return mask_.size(); }
  std::size_t masked() const { return mask_.size() - tokens_; }
  /// The attention mask: one number per slot, 1 where its token counts, and 1 for each of `more`
  /// that are to come.
  std::vector<std::int64_t> mask_with(std::uint32_t more) const;

  void append(std::uint32_t tokens);
  /// All but the first `kept` tokens stay behind the mask.
  void mask_from(std::uint32_t kept);
  /// The slots of the first `kept` tokens, which are the only ones from now on: the state must be
  /// cut to them, in order.
  std::vector<SlotRun> cut_to(std::uint32_t kept);
  void clear();

 private:
  std::vector<std::int64_t> mask_;  ///< by slot
  std::uint32_t tokens_ = 0;        ///< slots that are 1
};

}  // namespace paceline::engine
