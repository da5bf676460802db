// The tokens of one sequence as the penalties see them: which, how often, in the prompt or after
// it.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::sampling {

/// Positions rise without gaps from first_position(). Thread-compatible; copies are independent.
class TokenHistory {
 public:
  struct Entry {
    std::uint32_t token = 0;
    std::uint32_t in_prompt = 0;  ///< how often
    std::uint32_t in_answer = 0;
  };

  /// Positions below `prompt_tokens` are the prompt's. Without tokens it begins after the prompt.
  TokenHistory(std::uint64_t prompt_tokens, std::span<const std::uint32_t> tokens);

  std::uint64_t first_position() const { return first_; }
  /// One after the last known token.
  std::uint64_t end_position() const { return first_ + tokens_.size(); }
  /// `position` from first_position() up to, not including, end_position().
  std::uint32_t at(std::uint64_t position) const { return tokens_[position - first_]; }

  void push(std::uint32_t token);
  /// Forgets the tokens from `end` on.
  void truncate(std::uint64_t end);

  /// Each token that was ever here; both counts may be 0.
  std::span<const Entry> entries() const { return entries_; }

 private:
  /// Adds or takes away one occurrence.
  void count(std::uint32_t token, std::uint64_t position, bool is_added);

  std::uint64_t prompt_tokens_;
  std::uint64_t first_;
  std::vector<std::uint32_t> tokens_;
  std::vector<Entry> entries_;
  std::unordered_map<std::uint32_t, std::uint32_t> places_;  ///< token -> index in entries_
};

}  // namespace paceline::sampling
