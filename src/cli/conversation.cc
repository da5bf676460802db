#include "cli/conversation.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "cli/interrupt.h"
#include "cli/line_reader.h"

namespace paceline::cli {
namespace {

/// The next line the user typed; nothing at the end of the input or after Ctrl-C.
bool read_line(bool is_terminal, LineReader& input, std::string& line) {
  if (is_terminal) {
    fmt::print("> ");
    std::fflush(stdout);
  }
  return input.next(line);
}

}  // namespace

void show_piece(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  std::fflush(stdout);
}

void end_answer(bool was_stopped) {
  fmt::print("{}\n", was_stopped ? " [stopped]" : "");
  std::fflush(stdout);
  interrupt_flag().store(false);
}

Status converse(Conversation& conversation) {
  LineReader input(STDIN_FILENO, interrupt_flag());
  const bool is_terminal = ::isatty(STDIN_FILENO) != 0;
  if (is_terminal) {
    fmt::print("{}. /clear forgets the conversation, /exit ends it.\n", conversation.greeting());
  }
  for (std::string line; read_line(is_terminal, input, line);) {
    if (line == "/exit") break;
    if (line == "/clear") {
      conversation.reset();
    } else if (!line.empty()) {
      const Status answered = conversation.ask(line);
      if (!answered && !conversation.may_go_on(answered.error())) return answered;
      if (!answered) fmt::print(stderr, "paceline: {}\n", answered.error().message());
    }
  }
  return {};
}

}  // namespace paceline::cli
