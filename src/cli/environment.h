// Flags that may also come from the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace paceline::cli {

/// Shows in the command's help that "--max-waiting" is also read from PACELINE_MAX_WAITING, and so
/// each of its flags (settings.h does that). Call once all are added.
void name_environment_variables(CLI::App& command);

/// The variable of a flag by its long name, without dashes before it.
std::string environment_variable(const std::string& flag);

}  // namespace paceline::cli
