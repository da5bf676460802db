#include "spec/suffix_index.h"

#include <algorithm>

namespace paceline::spec {
namespace {

/// SplitMix64's finalizer over the tokens so far.
std::uint64_t mix(std::uint64_t state, std::int64_t token) {
  state = (state + 0x9E3779B97F4A7C15ULL) ^ static_cast<std::uint64_t>(token);
  state = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27U)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31U);
}

}  // namespace

void SuffixIndex::append(std::span<const std::int64_t> tokens) {
  for (const std::int64_t token : tokens) push(token);
}

void SuffixIndex::end_text() {
  if (!text_.empty() && text_.back() != kEndOfText) push(kEndOfText);
}

std::uint64_t SuffixIndex::anchor_before(std::uint64_t place) const {
  if (place - begin_ < options_.anchor_tokens) return 0;
  std::uint64_t hash = 1;
  for (std::uint64_t i = place - options_.anchor_tokens; i < place; ++i) {
    if (at(i) == kEndOfText) return 0;
    hash = mix(hash, at(i));
  }
  return hash;
}

void SuffixIndex::push(std::int64_t token) {
  text_.push_back(token);
  if (token != kEndOfText) {
    const std::uint64_t anchor = anchor_before(end());
    if (anchor != 0) {
      std::deque<std::uint64_t>& places = places_[anchor];
      places.push_back(end());
      if (places.size() > options_.candidates) places.pop_front();
    }
  }
  while (text_.size() > std::max<std::size_t>(options_.most_tokens, 1)) forget_oldest();
}

void SuffixIndex::forget_oldest() {
  // The first anchor that loses a token ends here.
  const std::uint64_t place = begin_ + options_.anchor_tokens;
  if (place <= end()) {
    const auto found = places_.find(anchor_before(place));
    if (found != places_.end()) {
      if (!found->second.empty() && found->second.front() == place) found->second.pop_front();
      if (found->second.empty()) places_.erase(found);
    }
  }
  text_.pop_front();
  ++begin_;
}

std::uint32_t SuffixIndex::agreement(std::uint64_t place,
                                     std::span<const std::int64_t> context) const {
  const std::uint64_t most =
      std::min<std::uint64_t>({options_.longest_match, context.size(), place - begin_});
  std::uint32_t length = 0;
  while (length < most && at(place - 1 - length) == context[context.size() - 1 - length]) ++length;
  return length;
}

SuffixMatch SuffixIndex::find(std::span<const std::int64_t> context) const {
  SuffixMatch best;
  if (context.size() < options_.anchor_tokens) return best;
  std::uint64_t anchor = 1;
  for (const std::int64_t token : context.last(options_.anchor_tokens)) anchor = mix(anchor, token);
  const auto found = places_.find(anchor);
  if (found == places_.end()) return best;
  for (auto place = found->second.rbegin(); place != found->second.rend(); ++place) {
    if (*place >= end() || at(*place) == kEndOfText) continue;
    const std::uint32_t length = agreement(*place, context);
    // Two anchors of one hash agree in less.
    if (length >= options_.anchor_tokens && length > best.length) best = {length, *place};
  }
  return best;
}

std::vector<std::int64_t> SuffixIndex::read(std::uint64_t place, std::size_t most,
                                            std::span<const std::int64_t> after_end) const {
  std::vector<std::int64_t> tokens;
  if (place < begin_ || place >= end()) return tokens;
  while (tokens.size() < most) {
    const std::uint64_t next = place + tokens.size();
    std::int64_t token = 0;
    if (next < end()) {
      token = at(next);
    } else if (next - end() < after_end.size()) {
      token = after_end[next - end()];
    } else {
      token = tokens[next - end() - after_end.size()];
    }
    if (token == kEndOfText) break;
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace paceline::spec
