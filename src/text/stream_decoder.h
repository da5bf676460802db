// Token ids to text as they come, never a broken character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace paceline::text {

/// Decodes one stream of tokens. Text that the next token may still change (a character split over
/// tokens) is held back. All pushes and the finish together give Tokenizer::decode() of all tokens,
/// with one exception that no decoder which shows text early can avoid: with byte-fallback
/// vocabularies, decode() replaces a whole run of byte tokens by U+FFFD where a late byte is no
/// UTF-8; here the characters that were complete before it stay.
///
/// Each push decodes a window of a few tokens, not the history: amortized O(1).
/// Thread-compatible; the tokenizer must outlive it, at its place.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  /// The text that became complete by `token`; often empty, always UTF-8. Ids that no token has
  /// give nothing; negative ids or such beyond 32 bits are kOutOfRange and leave the stream as it
  /// was.
  Result<std::string> push(std::int64_t token);

  /// What is left, broken characters as U+FFFD; then a new stream may start.
  Result<std::string> finish();

 private:
  /// The tokens [begin, end) of the window, decoded alone.
  Result<std::string> decode_window(std::size_t begin, std::size_t end) const;
  /// The part of `text`, which the window up to `end` decodes to, that was not shown yet.
  Result<std::string> unshown(const std::string& text, std::size_t end) const;
  /// Shows `text` of the window up to `end`; what was held back until there is the new context.
  Result<std::string> show(const std::string& text, std::size_t end);
  /// Shows the front of a long held-back part where later tokens cannot change it.
  Result<std::string> show_front(const std::string& text);

  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::vector<std::int64_t> window_;  ///< tokens shown last, as context, then those held back
  std::size_t context_size_ = 0;
  std::string context_text_;  ///< the context decoded alone
};

}  // namespace paceline::text
