// All commands of the program, and how a command line, the environment and configuration files
// together become a call of one.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/settings.h"

namespace paceline::cli {

/// The commands with their flags. Stays where it is: they store their outcome in it.
struct Commands {
  /// `entries`: of configuration files, for commands that look at more than their own section.
  explicit Commands(SettingsEntries entries = {});
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  CLI::App app;
  const SettingsEntries entries;
  Status done;
  std::string config;  ///< --config, of whatever command

  struct Leaf {
    std::vector<std::string> names;  ///< {"batch", "submit"}
    CLI::App* command = nullptr;
  };
  /// Commands that have none of their own.
  std::vector<Leaf> leaves();
};

/// A command line of which it is known where each flag comes from.
struct Reading {
  std::unique_ptr<Commands> commands;
  Commands::Leaf leaf;
  SettingsFiles files;
  SettingSources sources;
  std::vector<std::string> arguments;
};

/// `arguments`: without the program's name. Nothing: help or the version was asked for, and shown.
/// kInvalidArgument for what can be said before the command runs.
Result<std::unique_ptr<Reading>> read_command_line(const std::vector<std::string>& arguments);

/// What of its flags is wrong, if anything: the command does not run. Instead of run_command().
Status read_flags(Reading& reading);

/// The command's outcome, or what of its flags is wrong.
Status run_command(Reading& reading);

}  // namespace paceline::cli
