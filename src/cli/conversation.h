// A conversation in the terminal or out of a pipe. Ctrl-C stops an answer; at the prompt it ends.
#pragma once

#include <string>

#include "base/error.h"

namespace paceline::cli {

/// Who answers: a chain here, or a server.
class Conversation {
 public:
  virtual ~Conversation() = default;
  /// One line: with whom one talks.
  virtual std::string greeting() const = 0;
  /// Forgets what was said.
  virtual void reset() = 0;
  /// Shows the answer on standard output as it comes. Where it fails, the question is forgotten.
  virtual Status ask(const std::string& text) = 0;
  /// Whether the next question may do better.
  virtual bool may_go_on(const Error& error) const = 0;
};

/// Reads questions from standard input, one a line, until it ends, /exit or Ctrl-C.
Status converse(Conversation& conversation);

/// To standard output, at once.
void show_piece(std::string_view piece);

/// Ends an answer's line, and clears the interrupt: also a Ctrl-C that came with the last token was
/// meant for the answer.
void end_answer(bool was_stopped);

}  // namespace paceline::cli
