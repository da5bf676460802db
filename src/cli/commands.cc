#include "cli/commands.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "base/version.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/model_sections.h"

namespace paceline::cli {
namespace {

void add_leaves(CLI::App& command, const std::vector<std::string>& names,
                std::vector<Commands::Leaf>& leaves) {
  const auto inner = command.get_subcommands([](CLI::App*) { return true; });
  if (inner.empty()) leaves.push_back({names, &command});
  for (CLI::App* verb : inner) {
    auto longer = names;
    longer.push_back(verb->get_name());
    add_leaves(*verb, longer, leaves);
  }
}

/// Thrown where a command would run: its callback owns its flags, and cannot be taken away.
struct Stopped {};

void stop_before_commands(CLI::App& app) {
  app.parse_complete_callback([] { throw Stopped(); });
}

/// What is missing may come from elsewhere.
void relax(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    option->required(false);
    const std::set<CLI::Option*> needed = option->get_needs();
    for (CLI::Option* other : needed) option->remove_needs(other);
  }
}

Status parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const Stopped&) {
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;  // --help, --version
    return fail(ErrorCode::kInvalidArgument, "{}; see paceline --help", error.what());
  }
  return {};
}

/// The one that was called.
Commands::Leaf called(Commands& commands) {
  std::vector<Commands::Leaf> all = commands.leaves();
  const auto is_called = [](const Commands::Leaf& leaf) { return leaf.command->parsed(); };
  return *std::find_if(all.begin(), all.end(), is_called);
}

/// Of all sections, so that a name that is spelled wrong does not wait for its command.
Status check_all(Commands& commands, const SettingsEntries& entries) {
  const auto leaves = commands.leaves();
  for (const SettingsEntry& entry : entries) {
    if (entry.section.front() == "model") continue;
    const auto leaf = std::find_if(
        leaves.begin(), leaves.end(),
        [&entry](const Commands::Leaf& known) { return known.names == entry.section; });
    if (leaf == leaves.end()) {
      return fail(ErrorCode::kInvalidArgument, "{}: [{}]: there is no such command", entry.where(),
                  entry.section_name());
    }
    PACELINE_RETURN_IF_ERROR(check_entries(*leaf->command, {entry}));
  }
  PACELINE_RETURN_IF_ERROR(model_sections(entries));
  return {};
}

/// What the command line alone says.
struct Scan {
  std::vector<std::string> names;
  std::set<std::string> given;
  SettingsFiles files;
};

/// Nothing: help was shown.
Result<std::optional<Scan>> scan(const std::vector<std::string>& arguments) {
  Commands commands;
  const auto leaves = commands.leaves();
  // CLI11 would say that a command is missing.
  if (!arguments.empty() && !arguments.front().starts_with('-') &&
      std::none_of(leaves.begin(), leaves.end(), [&arguments](const Commands::Leaf& leaf) {
        return leaf.names.front() == arguments.front();
      })) {
    return fail(ErrorCode::kInvalidArgument, "{}: there is no such command; see paceline --help",
                arguments.front());
  }
  stop_before_commands(commands.app);
  for (const Commands::Leaf& leaf : leaves) relax(*leaf.command);
  try {
    PACELINE_RETURN_IF_ERROR(parse(commands.app, arguments));
  } catch (const CLI::ParseError& error) {
    for (const Commands::Leaf& leaf : leaves) name_environment_variables(*leaf.command);
    commands.app.exit(error);
    return std::nullopt;
  }
  const Commands::Leaf leaf = called(commands);
  const char* variable = std::getenv("PACELINE_CONFIG");
  if (commands.config.empty() && variable != nullptr) commands.config = variable;
  // Workers that the command starts read the same.
  if (!commands.config.empty()) ::setenv("PACELINE_CONFIG", commands.config.c_str(), 1);
  Scan found = {leaf.names, given_settings(*leaf.command), {}};
  PACELINE_ASSIGN_OR_RETURN(found.files, read_settings(commands.config));
  PACELINE_RETURN_IF_ERROR(check_all(commands, found.files.entries));
  return found;
}

}  // namespace

Commands::Commands(SettingsEntries given)
    : app("Paceline runs one large language model over several ordinary PCs.", "paceline"),
      entries(std::move(given)) {
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  add_batch_command(app, done);
  add_compile_command(app, done);
  add_inspect_command(app, done);
  add_key_command(app, done);
  add_verify_command(app, done);
  add_shard_command(app, done);
  add_precompile_command(app, done);
  add_generate_command(app, done);
  add_chat_command(app, done);
  add_run_command(app, done);
  add_serve_command(app, done, entries);
  add_fleet_commands(app, done);
  add_bench_command(app, done);
  add_worker_command(app, done);
  add_doctor_command(app, done);
  add_relay_command(app, done);
  add_config_command(app, done, config);
  for (const Leaf& leaf : leaves()) {
    leaf.command->add_option("--config", config,
                             "A configuration file (TOML), none for none; without it "
                             "paceline/config.toml in $XDG_CONFIG_HOME or ~/.config, and in /etc");
  }
}

std::vector<Commands::Leaf> Commands::leaves() {
  std::vector<Leaf> all;
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    add_leaves(*command, {command->get_name()}, all);
  }
  return all;
}

Result<std::unique_ptr<Reading>> read_command_line(const std::vector<std::string>& arguments) {
  PACELINE_ASSIGN_OR_RETURN(auto found, scan(arguments));
  if (!found) return nullptr;
  auto reading = std::make_unique<Reading>();
  reading->arguments = arguments;
  reading->files = std::move(found->files);
  reading->commands = std::make_unique<Commands>(reading->files.entries);
  for (Commands::Leaf& leaf : reading->commands->leaves()) {
    if (leaf.names == found->names) reading->leaf = std::move(leaf);
  }
  const SettingsEntries own = entries_of(reading->files.entries, reading->leaf.names);
  PACELINE_ASSIGN_OR_RETURN(reading->sources,
                            apply_settings(*reading->leaf.command, found->given, own));
  return reading;
}

Status read_flags(Reading& reading) {
  stop_before_commands(reading.commands->app);
  return parse(reading.commands->app, reading.arguments);
}

Status run_command(Reading& reading) {
  PACELINE_RETURN_IF_ERROR(parse(reading.commands->app, reading.arguments));
  return std::move(reading.commands->done);
}

}  // namespace paceline::cli
