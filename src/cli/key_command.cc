// paceline key: a new API key for a server that asks for them.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "cli/command.h"
#include "http/api_keys.h"

namespace paceline::cli {
namespace {

struct KeyFlags {
  std::string name;
  std::string file;
};

Status add_key(const KeyFlags& flags) {
  PACELINE_ASSIGN_OR_RETURN(const std::string key, http::ApiKeys::add(flags.file, flags.name));
  fmt::print(stderr, "{}: the hash of a key named {}; the key itself is shown this once\n",
             flags.file, flags.name);
  fmt::print("{}\n", key);
  return {};
}

}  // namespace

void add_key_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<KeyFlags>();
  CLI::App* command = app.add_subcommand(
      "key", "Make an API key: its hash goes into the file that serve --api-keys reads");
  command->add_option("name", flags->name, "Who uses it: letters, digits and . _ - @")->required();
  command->add_option("--api-keys", flags->file, "The file of hashes; made where there is none")
      ->required();
  command->callback([flags, &done] { done = add_key(*flags); });
}

}  // namespace paceline::cli
