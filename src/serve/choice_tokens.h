// The log-probabilities of one answer's tokens, in step with the text that is shown.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "api/token_logprobs.h"
#include "text/tokenizer.h"
#include "wire/messages.h"

namespace paceline::serve {

/// Text may be held back (the start of a stop string, a part of a character), and a stop string is
/// never shown: a token's entry comes with the first of its text, or not at all.
/// Thread-compatible; the tokenizer must outlive it.
class ChoiceTokens {
 public:
  /// Without a tokenizer (nullptr) entries have no text, and none is held back.
  ChoiceTokens(const text::Tokenizer* tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

  /// New tokens and the text shown with them: the entries that go along.
  std::vector<api::TokenEntry> push(std::span<const wire::Sample> samples, std::string_view text);

  enum class End {
    kEndToken,    ///< the last token is no part of the text
    kStopString,  ///< what was not shown is part of it
    kLength,
  };
  std::vector<api::TokenEntry> finish(End end);

 private:
  struct Held {
    api::TokenEntry entry;
    std::size_t begin = 0;  ///< of its text, in the answer's bytes
  };
  std::vector<api::TokenEntry> release(std::size_t count);

  const text::Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::deque<Held> held_;
  std::size_t next_begin_ = 0;
  std::size_t shown_bytes_ = 0;
};

/// Of one token with its rivals.
api::TokenEntry entry_of(const text::Tokenizer* tokenizer, std::int64_t token, float logprob,
                         std::span<const wire::TokenLogprob> top);

}  // namespace paceline::serve
