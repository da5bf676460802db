// paceline chat: a conversation, with a chain of its own or with any server.
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/local_chat.h"
#include "cli/remote_chat.h"

namespace paceline::cli {
namespace {

struct ChatFlags {
  ChainFlags chain;
  SamplingFlags sampling;
  ServerFlags server;
  std::string model;
  std::string system;
};

Status chat(const ChatFlags& flags) {
  if (!flags.server.url.empty()) {
    return chat_with_server(flags.server, flags.model, flags.sampling, flags.system);
  }
  if (flags.chain.package.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--package is required, or --url for a server; see paceline chat --help");
  }
  return chat_with_chain(flags.chain, flags.sampling, flags.system);
}

}  // namespace

void add_chat_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<ChatFlags>();
  flags->sampling.max_tokens = 1024;
  flags->server.url.clear();
  CLI::App* command =
      app.add_subcommand("chat", "Talk with a model over a chain of stages, or at any server");
  flags->chain.add_to(*command);
  flags->sampling.add_to(*command);
  command->add_option("--system", flags->system, "A system message before the conversation");
  flags->server.add_to(*command);
  command->add_option("--model", flags->model,
                      "With --url: which of the server's; without it the first that is ready");
  command->get_option("--package")->required(false);
  command->get_option("--url")->excludes(command->get_option("--package"));
  command->callback([flags, &done] { done = chat(*flags); });
}

}  // namespace paceline::cli
