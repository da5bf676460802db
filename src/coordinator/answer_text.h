// The text side of one answer: tokens in, shown text out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace paceline::coordinator {

/// Never gives a part of a character, nor of a stop string. Thread-compatible; the tokenizer must
/// outlive it.
class AnswerText {
 public:
  struct Piece {
    std::string text;      ///< to be shown now
    bool stopped = false;  ///< a stop string is complete: the answer ends before it
  };

  /// Without a tokenizer (nullptr) the text stays empty; stop strings need one. kInvalidArgument
  /// where the stop strings are not valid.
  static Result<AnswerText> create(const text::Tokenizer* tokenizer,
                                   const std::vector<std::string>& stop,
                                   bool skip_special_tokens = true);

  Result<Piece> push(std::int64_t token);
  /// What was held back. Not after a stop string.
  Result<std::string> finish();

 private:
  AnswerText(const text::Tokenizer* tokenizer, text::StopMatcher matcher, bool skip_special_tokens);

  std::optional<text::StreamDecoder> decoder_;
  text::StopMatcher matcher_;
};

}  // namespace paceline::coordinator
