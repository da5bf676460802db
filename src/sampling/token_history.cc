#include "sampling/token_history.h"

namespace paceline::sampling {

TokenHistory::TokenHistory(std::uint64_t prompt_tokens, std::span<const std::uint32_t> tokens)
    : prompt_tokens_(prompt_tokens), first_(tokens.empty() ? prompt_tokens : 0) {
  tokens_.reserve(tokens.size());
  for (const std::uint32_t token : tokens) push(token);
}

void TokenHistory::push(std::uint32_t token) {
  count(token, end_position(), true);
  tokens_.push_back(token);
}

void TokenHistory::truncate(std::uint64_t end) {
  while (!tokens_.empty() && end_position() > end) {
    const std::uint32_t token = tokens_.back();
    tokens_.pop_back();
    count(token, end_position(), false);
  }
}

void TokenHistory::count(std::uint32_t token, std::uint64_t position, bool is_added) {
  const auto [place, is_new] = places_.emplace(token, static_cast<std::uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({token, 0, 0});
  Entry& entry = entries_[place->second];
  std::uint32_t& number = position < prompt_tokens_ ? entry.in_prompt : entry.in_answer;
  number += is_added ? 1U : -1U;
}

}  // namespace paceline::sampling
