// Finds where the end of a text has been before, and what came after it there.
//
// Prompt lookup is this over the text itself; suffix matching the same over recent texts. Not a
// suffix automaton: it cannot forget its beginning, so its memory is not bounded, and the longest
// match beyond a few dozen tokens says no more. A table from the last few tokens (the anchor) to
// the places where they stand, compared backwards for the longest match, is bounded and forgets the
// oldest tokens one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::spec {

struct SuffixIndexOptions {
  std::uint32_t anchor_tokens = 2;   ///< the shortest match
  std::uint32_t longest_match = 32;  ///< more is not looked at
  std::uint32_t candidates = 8;      ///< places kept for one anchor, the newest
  std::size_t most_tokens = 1U << 15;
};

struct SuffixMatch {
  std::uint32_t length = 0;        ///< tokens that agree; 0: none
  std::uint64_t continuation = 0;  ///< the place after them, for SuffixIndex::read()
};

/// Thread-compatible. What it finds is a function of the calls alone.
class SuffixIndex {
 public:
  explicit SuffixIndex(SuffixIndexOptions options) : options_(options) {}

  /// Tokens kept now, ends of texts included.
  std::size_t size() const { return text_.size(); }

  void append(std::span<const std::int64_t> tokens);
  /// The next token does not continue this text.
  void end_text();

  /// The longest place where the last tokens of `context` stand with something after them; the
  /// newest of equals.
  SuffixMatch find(std::span<const std::int64_t> context) const;
  /// Up to `most` tokens from `place`. Where the newest text ends it goes on with `after_end` and
  /// then with what it has just given: text of a short period is found in its first repetition.
  std::vector<std::int64_t> read(std::uint64_t place, std::size_t most,
                                 std::span<const std::int64_t> after_end = {}) const;

 private:
  static constexpr std::int64_t kEndOfText = -1;

  void push(std::int64_t token);
  void forget_oldest();
  std::int64_t at(std::uint64_t place) const { return text_[place - begin_]; }
  std::uint64_t end() const { return begin_ + text_.size(); }
  /// Of the anchor that ends before `place`; 0 where it spans an end of text.
  std::uint64_t anchor_before(std::uint64_t place) const;
  std::uint32_t agreement(std::uint64_t place, std::span<const std::int64_t> context) const;

  const SuffixIndexOptions options_;
  std::uint64_t begin_ = 0;  ///< the place of text_[0]: places keep their numbers
  std::deque<std::int64_t> text_;
  std::unordered_map<std::uint64_t, std::deque<std::uint64_t>> places_;  ///< by anchor, rising
};

}  // namespace paceline::spec
