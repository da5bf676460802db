// paceline chat: a conversation in the terminal. Ctrl-C stops an answer; at the prompt it ends.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "cli/chain_flags.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/package_files.h"
#include "cli/sampling_flags.h"
#include "coordinator/answer_waiter.h"

namespace paceline::cli {
namespace {

struct ChatFlags {
  ChainFlags chain;
  SamplingFlags sampling;
  std::string system;
};

/// The next line the user typed; nothing at the end of the input or after Ctrl-C.
bool read_line(bool is_terminal, LineReader& input, std::string& line) {
  if (is_terminal) {
    fmt::print("> ");
    std::fflush(stdout);
  }
  return input.next(line);
}

class Conversation {
 public:
  Conversation(ChainSession& session, ChatFormat format, const ChatFlags& flags)
      : session_(session), format_(std::move(format)), flags_(flags) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!flags_.system.empty()) messages_.push_back({"system", flags_.system});
  }

  Status ask(std::string text) {
    messages_.push_back({"user", std::move(text)});
    auto answer = this->answer();
    if (!answer) {
      messages_.pop_back();
      return fail(std::move(answer).error());
    }
    messages_.push_back({"assistant", *std::move(answer)});
    return {};
  }

 private:
  Result<std::string> answer() {
    PACELINE_ASSIGN_OR_RETURN(
        const std::string prompt,
        format_.chat_template.render(messages_, {true, format_.bos_token, format_.eos_token, {}}));
    coordinator::GenerationRequest request;
    PACELINE_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, session_.tokenizer());
    PACELINE_ASSIGN_OR_RETURN(request.prompt, tokenizer->encode(prompt, false));
    PACELINE_ASSIGN_OR_RETURN(request.sampling,
                              flags_.sampling.sampling_spec(session_.manifest().model.sampling));
    request.max_tokens = flags_.sampling.max_tokens;
    request.stop = flags_.sampling.stop;
    const auto show = [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    PACELINE_ASSIGN_OR_RETURN(auto generation, coordinator::generate(session_.generator(), request,
                                                                     show, interrupt_flag()));
    const bool was_stopped = generation.finish_reason == coordinator::FinishReason::kCancelled;
    fmt::print("{}\n", was_stopped ? " [stopped]" : "");
    // Also a Ctrl-C that came with the last token was meant for the answer.
    interrupt_flag().store(false);
    return std::move(generation.text);
  }

  ChainSession& session_;
  ChatFormat format_;
  const ChatFlags& flags_;
  std::vector<text::ChatMessage> messages_;
};

/// An error that the next question may not meet: the conversation goes on.
bool is_about_the_request(const Error& error) {
  return error.code() == ErrorCode::kInvalidArgument;
}

Status chat(const ChatFlags& flags) {
  LineReader input(STDIN_FILENO, interrupt_flag());
  PACELINE_ASSIGN_OR_RETURN(const auto spec, flags.sampling.sampling_spec());
  PACELINE_ASSIGN_OR_RETURN(auto format, load_chat_format(flags.chain.package));
  PACELINE_ASSIGN_OR_RETURN(const auto session, ChainSession::open(flags.chain));
  PACELINE_RETURN_IF_ERROR(sampling::check(spec, session->manifest().vocabulary_size));
  const bool is_terminal = ::isatty(STDIN_FILENO) != 0;
  if (is_terminal) {
    fmt::print("{} over {} stages. /clear forgets the conversation, /exit ends it.\n",
               session->manifest().model.name, session->chain().stages().size());
  }
  Conversation conversation(*session, std::move(format), flags);
  for (std::string line; read_line(is_terminal, input, line);) {
    if (line == "/exit") break;
    if (line == "/clear") {
      conversation.reset();
    } else if (!line.empty()) {
      auto answered = conversation.ask(line);
      if (!answered && !is_about_the_request(answered.error())) return answered;
      if (!answered) fmt::print(stderr, "paceline: {}\n", answered.error().message());
    }
  }
  return {};
}

}  // namespace

void add_chat_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<ChatFlags>();
  flags->sampling.max_tokens = 1024;
  CLI::App* command = app.add_subcommand("chat", "Talk with a model over a chain of stages");
  flags->chain.add_to(*command);
  flags->sampling.add_to(*command);
  command->add_option("--system", flags->system, "A system message before the conversation");
  command->callback([flags, &done] { done = chat(*flags); });
}

}  // namespace paceline::cli
